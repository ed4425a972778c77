use shapeproof::{
    Batch, C, DivisibleBy, HeadDim, HeadDimOf, Heads, Key, KvHeads, Model, MultiHeadAttention,
    NoMask, Query, Seq, Size, Static, Tensor, scaled_dot_product_attention,
};

fn there_and_back<B: Size, S: Size, M: DivisibleBy<H>, H: Static>(
    x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
) -> Tensor<(Batch<B>, Seq<S>, Model<M>)> {
    x.split_heads::<H>().merge_heads()
}

/// An array whose length came out of a division.
fn head<M: DivisibleBy<H>, H: Static>() -> <HeadDimOf<M, H> as Static>::Array<f32> {
    HeadDimOf::<M, H>::array(|i| i as f32)
}

fn repeats<H: DivisibleBy<G>, G: Static>() -> usize {
    HeadDimOf::<H, G>::N
}

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<512>>)>::from_fn(|at| (at[1] + at[2]) as f32);
    let y = x.split_heads::<C<8>>().merge_heads();
    assert_eq!(y, x);
    assert_eq!(there_and_back::<_, _, _, C<8>>(&x), x);

    let row: [f32; 3] = head::<C<6>, C<2>>();
    assert_eq!(row, [0.0, 1.0, 2.0]);
    assert_eq!(repeats::<C<12>, C<4>>(), 3);

    let first = MultiHeadAttention::<C<384>, C<12>>::zeros();
    let second: MultiHeadAttention<C<384>, C<12>> = MultiHeadAttention::zeros();
    assert_eq!(first.q.weight.shape(), second.q.weight.shape());

    // The shape of the queries comes from that of the result.
    let k = Tensor::<(Batch<C<1>>, KvHeads<C<2>>, Key<C<3>>, HeadDim<C<4>>)>::ones();
    let y: Tensor<(Batch<C<1>>, Heads<C<4>>, Query<C<9>>, HeadDim<C<4>>)> =
        scaled_dot_product_attention(&Tensor::zeros(), &k, &k, NoMask);
    assert_eq!(y, Tensor::ones());
}
