use shapeproof::{
    Alibi, Batch, C, Causal, HeadDim, Heads, Key, Query, Tensor, scaled_dot_product_attention,
};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Heads<C<4>>, Query<C<6>>, HeadDim<C<8>>)>::zeros();
    let k = Tensor::<(Batch<C<2>>, Heads<C<4>>, Key<C<6>>, HeadDim<C<8>>)>::zeros();
    let alibi = Alibi::<C<4>>::new();
    scaled_dot_product_attention(&q, &k, &k, Causal & alibi);
}
