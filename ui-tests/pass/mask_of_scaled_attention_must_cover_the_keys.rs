use shapeproof::{Batch, C, HeadDim, Heads, Key, Query, Tensor, scaled_dot_product_attention};

fn main() {
    let q = Tensor::<(Batch<C<1>>, Heads<C<2>>, Query<C<3>>, HeadDim<C<4>>)>::zeros();
    let k = Tensor::<(Batch<C<1>>, Heads<C<2>>, Key<C<5>>, HeadDim<C<4>>)>::zeros();
    let mask = Tensor::<(Query<C<3>>, Key<C<5>>), bool>::zeros();
    scaled_dot_product_attention(&q, &k, &k, &mask);
}
