use shapeproof::{
    Batch, C, Causal, HeadDim, Heads, Key, Query, Segments, Tensor, scaled_dot_product_attention,
};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Heads<C<4>>, Query<C<6>>, HeadDim<C<8>>)>::zeros();
    let k = Tensor::<(Batch<C<2>>, Heads<C<4>>, Key<C<6>>, HeadDim<C<8>>)>::zeros();
    let segments = Segments::try_of(Query(C::<6>), Key(C::<6>), &[2, 3]).unwrap();
    scaled_dot_product_attention(&q, &k, &k, Causal & segments);
}
