use shapeproof::{
    Batch, C, Causal, HeadDim, Heads, Key, Query, Size, Tensor, scaled_dot_product_attention,
};

type ByHead<B, H, S, D> = Tensor<(Batch<B>, Heads<H>, S, HeadDim<D>)>;
fn attend<B: Size, H: Size, Q: Size, D: Size>(
    queries: &ByHead<B, H, Query<Q>, D>,
    keys: &ByHead<B, H, Key<Q>, D>,
    values: &ByHead<B, H, Key<C<5>>, D>,
) {
    scaled_dot_product_attention(queries, keys, values, Causal);
}
fn main() {
    let q = ByHead::<C<1>, C<2>, Query<C<3>>, C<4>>::zeros();
    let k = ByHead::<C<1>, C<2>, Key<C<3>>, C<4>>::zeros();
    attend(&q, &k, &ByHead::<C<1>, C<2>, Key<C<5>>, C<4>>::zeros());
}
