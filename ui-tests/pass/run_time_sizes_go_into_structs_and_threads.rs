use shapeproof::{
    AnyTensor, Batch, C, Causal, DivisibleBy, Dyn, Infer, Key, Model, MultiHeadAttention, Query,
    Seq, Size, Static, Tensor, dyn_size, scaled_dot_product_attention,
};
use std::thread;

/// Stored tensors take their sizes from the struct's parameters.
struct Held<B, K> {
    keys: Tensor<(Batch<B>, Key<K>, Model<C<8>>)>,
}

impl<B: Size, K: Size> Held<B, K> {
    fn new(batch: B, keys: K) -> Self {
        Held { keys: Tensor::zeros_in((Batch(batch), Key(keys), Model(C))) }
    }
}

fn twice<B: Size, S: Size>(x: &Tensor<(Batch<B>, Seq<S>)>) -> Tensor<(Batch<B>,)> {
    x.add(x).mean(Seq)
}

/// A function that makes its own sizes returns something erased, …
fn read(n: usize) -> AnyTensor {
    dyn_size!(batch = n);
    Tensor::zeros_in((Batch(batch), Model(C::<4>))).erase()
}

/// … or hands the typed tensor on.
trait WithBatch {
    type Out;
    fn call<B: Size>(self, x: Tensor<(Batch<B>, Model<C<4>>)>) -> Self::Out;
}

fn with_read<W: WithBatch>(n: usize, with: W) -> W::Out {
    dyn_size!(batch = n);
    with.call(Tensor::zeros_in((Batch(batch), Model(C))))
}

struct Count;

impl WithBatch for Count {
    type Out = usize;
    fn call<B: Size>(self, x: Tensor<(Batch<B>, Model<C<4>>)>) -> usize {
        x.count()
    }
}

fn attend<B: Size, N: Size, M: DivisibleBy<H>, H: Static>(
    layers: &[MultiHeadAttention<M, H>],
    x: &Tensor<(Batch<B>, Seq<N>, Model<M>)>,
) -> Tensor<(Batch<B>, Seq<N>, Model<M>)> {
    let mut x = x.clone();
    for layer in layers {
        let q = layer.q.forward(&x, &mut Infer).rename(Seq, Query).split_heads::<H>();
        let k = layer.k.forward(&x, &mut Infer).rename(Seq, Key).split_heads::<H>();
        let v = layer.v.forward(&x, &mut Infer).rename(Seq, Key).split_heads::<H>();
        let y = scaled_dot_product_attention(&q, &k, &v, Causal);
        x = x.add(&y.merge_heads().rename(Query, Seq));
    }
    x
}

fn main() {
    let layers: Vec<_> = (0..2).map(|_| MultiHeadAttention::<C<16>, C<4>>::zeros()).collect();
    dyn_size!(batch = 3);
    for n in [3, 1, 2] {
        dyn_size!(new = n);
        let x = Tensor::ones_in((Batch(batch), Seq(new), Model(C)));
        assert_eq!(attend(&layers, &x), x);
    }

    dyn_size!(length = 2);
    assert_eq!(Held::new(batch, length).keys.dims(), [3, 2, 8]);
    let x = Tensor::<_, f32>::ones_in((Batch(batch), Seq(length)));
    thread::scope(|scope| {
        let other = scope.spawn(|| twice(&x));
        assert_eq!(other.join().unwrap().add(&x.mean(Seq)).to_vec(), [3.0; 3]);
    });
    let closure = |y: &Tensor<(Batch<Dyn<'_, batch>>, Seq<Dyn<'_, length>>)>| y.dims().to_vec();
    assert_eq!(closure(&x), [3, 2]);

    assert_eq!((with_read(5, Count), read(7).dims()[0]), (20, 7));

    // Tensors of several run-time lengths in one list.
    let all: Vec<_> = (1..4)
        .map(|n| {
            dyn_size!(length = n);
            Tensor::<_, f32>::zeros_in((Seq(length), Model(C::<4>))).erase()
        })
        .collect();
    for (i, any) in all.iter().enumerate() {
        dyn_size!(length = any.dims()[0]);
        let x = any.try_typed((Seq(length), Model(C::<4>))).unwrap();
        assert_eq!(x.dims(), [i + 1, 4]);
    }

    let slot;
    dyn_size!(late = 3);
    slot = Tensor::<_, f32>::zeros_in((Batch(late),));
    assert_eq!(slot.dims(), [3]);
}
