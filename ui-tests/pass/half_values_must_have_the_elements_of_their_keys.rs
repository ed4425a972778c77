use shapeproof::scaled_dot_product_attention;
use shapeproof::{Batch, C, HeadDim, Heads, Key, NoMask, Query, Tensor, bf16, f16};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Heads<C<3>>, Query<C<4>>, HeadDim<C<8>>), f16>::zeros();
    let k = Tensor::<(Batch<C<2>>, Heads<C<3>>, Key<C<5>>, HeadDim<C<8>>), f16>::zeros();
    let v = Tensor::<(Batch<C<2>>, Heads<C<3>>, Key<C<5>>, HeadDim<C<8>>), bf16>::zeros();
    let _y = scaled_dot_product_attention(&q, &k, &v.to::<f16>(), NoMask);
}
