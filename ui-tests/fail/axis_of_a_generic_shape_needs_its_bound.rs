use shapeproof::{Batch, C, Model, Shape, Tensor};

fn weights<S: Shape>(x: &Tensor<S>) -> Tensor<S> {
    x.softmax(Model)
}
fn main() {
    weights(&Tensor::<(Batch<C<2>>, Model<C<4>>)>::zeros());
}
