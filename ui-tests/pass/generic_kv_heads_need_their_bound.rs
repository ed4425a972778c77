use shapeproof::{
    Batch, C, DivisibleBy, HeadDim, Heads, Key, KvHeads, NoMask, Query, Size, Static, Tensor,
    scaled_dot_product_attention,
};

fn attend<H: DivisibleBy<G>, G: Static, L: Size, D: Size>(
    q: &Tensor<(Batch<C<1>>, Heads<H>, Query<L>, HeadDim<D>)>,
    k: &Tensor<(Batch<C<1>>, KvHeads<G>, Key<L>, HeadDim<D>)>,
) {
    scaled_dot_product_attention(q, k, k, NoMask);
}
fn main() {
    let q = Tensor::<(Batch<C<1>>, Heads<C<4>>, Query<C<3>>, HeadDim<C<2>>)>::zeros();
    let k = Tensor::<(Batch<C<1>>, KvHeads<C<2>>, Key<C<3>>, HeadDim<C<2>>)>::zeros();
    attend(&q, &k);
}
