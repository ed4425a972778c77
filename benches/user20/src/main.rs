//! Layers of 20 widths in one program, each written out with its numbers, so that the compiler proves
//! every width by itself: a generic block would be proven once. No `recursion_limit`.

use shapeproof::{
    Activation, Batch, C, Causal, EncoderConfig, EncoderLayer, FeedForward, Generator, HeadDim,
    Heads, Hidden, Infer, Key, LayerNorm, Linear, Model, MultiHeadAttention, NoMask, Query, Seq,
    Tensor, dyn_size,
};

macro_rules! widths {
    ($($name:ident: $width:literal, $heads:literal, $hidden:literal;)+) => {
        $(
            fn $name(length: usize) -> f32 {
                type M = C<$width>;
                type H = C<$heads>;
                type F = C<$hidden>;
                dyn_size!(length = length);
                let mut generator = Generator::seeded($width);
                let x = Tensor::normal_in(
                    (Batch(C::<2>), Seq(length), Model(C::<$width>)),
                    0.0,
                    1.0,
                    &mut generator,
                );

                // One layer of each kind.
                let attention = MultiHeadAttention::<M, H>::xavier(&mut generator);
                let norm = LayerNorm::<Model<M>>::new(1e-5);
                let up = Linear::<Model<M>, Hidden<F>>::xavier(&mut generator);
                let down = Linear::<Hidden<F>, Model<M>>::xavier(&mut generator);
                let block = FeedForward::<M, F>::xavier(Activation::Gelu, &mut generator);
                let encoder =
                    EncoderLayer::<M, H, F>::xavier(EncoderConfig::new(1e-5), &mut generator);
                let x = norm.forward(&x.add(&attention.forward(&x, Causal, &mut Infer)), &mut Infer);
                let x = x.add(&down.forward(&up.forward(&x, &mut Infer).gelu(), &mut Infer));
                let x = block.forward(&encoder.forward(&x, NoMask, &mut Infer), &mut Infer);

                // Attention by hand.
                let q = x.split_heads::<H>().rename(Seq, Query);
                let k = x.split_heads::<H>().rename(Seq, Key);
                let scores = q.dot(&k.transpose(Key, HeadDim), HeadDim);
                let y = scores.softmax(Key).dot(&k, Key).rename(Query, Seq);
                let y: Tensor<(Batch<C<2>>, Seq<_>, Model<M>)> = y.merge_heads();
                let split = y.split_axis(Model, Heads(C::<$heads>), HeadDim);
                let total = split.merge_axes(Heads, HeadDim, Model).add(&x).sum(Model).sum(Seq);
                total.to_vec().iter().sum()
            }
        )+

        fn main() {
            let length = 1 + std::env::args().count();
            $( println!("{:5} wide, {:2} heads: {}", $width, $heads, $name(length)); )+
        }
    };
}
widths! {
    w64: 64, 4, 256;
    w96: 96, 6, 384;
    w128: 128, 8, 512;
    w160: 160, 5, 640;
    w192: 192, 12, 768;
    w256: 256, 8, 1024;
    w300: 300, 6, 1200;
    w320: 320, 10, 1280;
    w384: 384, 12, 1536;
    w448: 448, 7, 1792;
    w500: 500, 10, 2000;
    w512: 512, 8, 2048;
    w576: 576, 9, 2304;
    w640: 640, 10, 2560;
    w720: 720, 12, 2880;
    w768: 768, 12, 3072;
    w896: 896, 14, 3584;
    w960: 960, 15, 3840;
    w1024: 1024, 16, 4096;
    w2048: 2048, 32, 8192;
}
