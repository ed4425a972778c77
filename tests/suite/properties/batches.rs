//! A batch of n is n batches of one, bit for bit: no sample sees its neighbours.

use proptest::prelude::*;
use shapeproof::{
    Activation, Batch, Bias, C, Causal, EncoderConfig, EncoderLayer, Float, Generator, HeadDim,
    Heads, Hidden, Infer, Key, LayerNorm, Linear, Model, MultiHeadAttention, NoMask, Order, Query,
    Seq, Shape, Size, Tensor, dyn_size, scaled_dot_product_attention,
};

use super::draws;
use crate::masks::{bits, narrowed};
use crate::random::Random;

type Rows<B, S, E> = Tensor<(Batch<B>, Seq<S>, Model<C<6>>), E>;

/// Something that runs on a batch of any size.
trait OnBatch<E> {
    /// The bits of the results, sample after sample.
    fn run<B: Size, S: Size>(
        &self,
        x: &Rows<B, S, E>,
        keep: &Tensor<(Batch<B>, Key<S>), bool>,
    ) -> Vec<u64>;
}

fn check<E: Float>(name: &str, [batch, length]: [usize; 2], seed: u64, of: &impl OnBatch<E>) {
    let mut random = Random::new(seed);
    dyn_size!(b = batch, l = length);
    let shape = (Batch(b), Seq(l), Model(C::<6>));
    let values = random.values(batch * length * 6);
    let x = Tensor::try_from_vec(shape, narrowed::<E>(&values)).unwrap();
    let keep = Tensor::from_fn_in((Batch(b), Key(l)), |_| random.flag());
    let one_by_one: Vec<u64> = (0..batch)
        .flat_map(|sample| {
            let one = C::<1>;
            let x = x.try_slice(Batch, sample, one).unwrap();
            of.run(&x, &keep.try_slice(Batch, sample, one).unwrap())
        })
        .collect();
    assert!(of.run(&x, &keep) == one_by_one, "{name}, {}", E::NAME);
}

macro_rules! on_batch {
    ($($Name:ident($($field:ident: $Field:ty),*) |$this:ident, $x:ident, $keep:ident| $body:expr;)+) => { $(
        struct $Name<E> { $($field: $Field,)* element: std::marker::PhantomData<E> }
        impl<E: Float> OnBatch<E> for $Name<E> {
            fn run<B: Size, S: Size>(
                &self,
                $x: &Rows<B, S, E>,
                $keep: &Tensor<(Batch<B>, Key<S>), bool>,
            ) -> Vec<u64> {
                let $this = self;
                $body
            }
        }
    )+ };
}

fn found<S: Shape, E: Float>(x: &Tensor<S, E>) -> Vec<u64> {
    bits(&x.to_vec())
}

on_batch! {
    Elementwise() |_this, x, _keep| found(&x.gelu().add(x).mul_scalar(0.3));
    Softmax() |_this, x, _keep| found(&x.softmax(Model).add(&x.softmax(Seq)));
    Reductions() |_this, x, _keep| found(&x.mean(Seq).add(&x.cumsum(Seq).max(Seq)).sum(Model));
    Sorted() |_this, x, _keep| found(&x.sort(Seq, Order::Ascending).0);
    Norm(norm: LayerNorm<Model<C<6>>, E>) |this, x, _keep| found(&this.norm.forward(x, &mut Infer));
    Map(linear: Linear<Model<C<6>>, Hidden<C<17>>, Bias, E>)
        |this, x, _keep| found(&this.linear.forward(x, &mut Infer));
    Product() |_this, x, _keep| found(&x.dot(&x.rename(Seq, Key), Model));
    Attend() |_this, x, keep| {
        let heads: Tensor<(Batch<B>, Heads<C<3>>, Seq<S>, HeadDim<C<2>>), E> = x.split_heads::<C<3>>();
        let (q, k) = (heads.rename(Seq, Query), heads.rename(Seq, Key));
        found(&scaled_dot_product_attention(&q, &k, &k, keep & Causal))
    };
    Layer(attention: MultiHeadAttention<C<6>, C<2>, C<6>, C<6>, Bias, E>) |this, x, keep| {
        let fused = found(&this.attention.forward(x, keep, &mut Infer));
        let cross = found(&this.attention.cross(x, x, x, NoMask, &mut Infer));
        // Sample after sample, as the slices are.
        let each = fused.len().checked_div(x.dims()[0]).unwrap_or(0).max(1);
        fused.chunks(each).zip(cross.chunks(each)).flat_map(|(a, b)| [a, b].concat()).collect()
    };
    Encode(layer: EncoderLayer<C<6>, C<3>, C<11>, Bias, E>)
        |this, x, keep| found(&this.layer.forward(x, keep, &mut Infer));
}

fn check_all<E: Float>(sizes: [usize; 2], seed: u64) {
    let generator = &mut Generator::seeded(seed);
    let element = std::marker::PhantomData::<E>;
    check("elementwise", sizes, seed, &Elementwise { element });
    check("softmax", sizes, seed, &Softmax { element });
    check("reductions", sizes, seed, &Reductions { element });
    check("sort", sizes, seed, &Sorted { element });
    check("layer norm", sizes, seed, &Norm { norm: LayerNorm::new(1e-5), element });
    check("linear", sizes, seed, &Map { linear: Linear::xavier(generator), element });
    check("product", sizes, seed, &Product { element });
    check("attention", sizes, seed, &Attend { element });
    let attention = MultiHeadAttention::xavier(generator);
    check("attention layer", sizes, seed, &Layer { attention, element });
    let config = EncoderConfig { activation: Activation::Gelu, ..EncoderConfig::new(1e-5) };
    check(
        "encoder layer",
        sizes,
        seed,
        &Encode { layer: EncoderLayer::xavier(config, generator), element },
    );
}

proptest! {
    #![proptest_config(draws(24))]

    #[test]
    fn a_batch_of_n_equals_n_batches_of_one(sizes in [0usize..8, 0..10], seed: u64) {
        check_all::<f32>(sizes, seed);
        check_all::<f64>(sizes, seed);
    }
}
