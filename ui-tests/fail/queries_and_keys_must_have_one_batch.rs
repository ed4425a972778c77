use shapeproof::{
    Batch, C, HeadDim, Heads, Key, NoMask, Query, Tensor, scaled_dot_product_attention,
};

fn main() {
    let q = Tensor::<(Batch<C<1>>, Heads<C<6>>, Query<C<2>>, HeadDim<C<8>>)>::zeros();
    let k = Tensor::<(Batch<C<2>>, Heads<C<6>>, Key<C<3>>, HeadDim<C<8>>)>::zeros();
    let v = Tensor::<(Batch<C<1>>, Heads<C<6>>, Key<C<3>>, HeadDim<C<8>>)>::zeros();
    scaled_dot_product_attention(&q, &k, &v, NoMask);
}
