use shapeproof::{
    Batch, C, HeadDim, Heads, Key, NoMask, Query, Tensor, scaled_dot_product_attention,
};

fn main() {
    let q = Tensor::<(Batch<C<1>>, Heads<C<2>>, Query<C<3>>, HeadDim<C<4>>), f32>::zeros();
    let k = Tensor::<(Batch<C<1>>, Heads<C<2>>, Key<C<3>>, HeadDim<C<4>>), f32>::zeros();
    let v = Tensor::<(Batch<C<1>>, Heads<C<2>>, Key<C<3>>, HeadDim<C<4>>), f32>::zeros();
    scaled_dot_product_attention(&q, &k, &v, NoMask);
}
