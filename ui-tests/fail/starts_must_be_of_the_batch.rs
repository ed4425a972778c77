use shapeproof::{
    Batch, C, Causal, HeadDim, Heads, Key, Query, SlidingWindow, Tensor,
    scaled_dot_product_attention,
};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Heads<C<4>>, Query<C<6>>, HeadDim<C<8>>)>::zeros();
    let k = Tensor::<(Batch<C<2>>, Heads<C<4>>, Key<C<6>>, HeadDim<C<8>>)>::zeros();
    let starts = Tensor::<(Batch<C<3>>,), i64>::zeros();
    let window = SlidingWindow::causal::<C<3>>().at(&starts);
    scaled_dot_product_attention(&q, &k, &k, Causal & window);
}
