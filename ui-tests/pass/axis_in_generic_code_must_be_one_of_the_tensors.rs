use shapeproof::{Batch, C, Model, Seq, Size, Tensor};

fn pool<B: Size, S: Size, M: Size>(
    x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
) -> Tensor<(Batch<B>, Model<M>)> {
    x.mean(Seq)
}
fn main() {
    pool(&Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>)>::zeros());
}
