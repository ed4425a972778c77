use shapeproof::{Batch, C, Model, Shape, Size, Tensor};

fn scale<S: Shape, M: Size>(x: &Tensor<S>, by: &Tensor<(Model<M>,)>) -> Tensor<S> {
    x.mul(by)
}
fn main() {
    scale(&Tensor::<(Batch<C<2>>, Model<C<3>>)>::zeros(), &Tensor::<(Model<C<3>>,)>::zeros());
}
