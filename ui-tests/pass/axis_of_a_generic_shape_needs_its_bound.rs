use shapeproof::{Batch, C, HasAxis, Marker, Model, Shape, Size, Tensor};

fn weights<S: Shape + HasAxis<Model<M>, I>, M: Size, I: Marker>(x: &Tensor<S>) -> Tensor<S> {
    x.softmax(Model)
}
fn main() {
    weights(&Tensor::<(Batch<C<2>>, Model<C<4>>)>::zeros());
}
