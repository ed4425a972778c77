use shapeproof::{Batch, C, Hidden, Model, Size, Tensor};

fn project<B: Size, M: Size, F: Size>(
    x: &Tensor<(Batch<B>, Model<M>)>,
    weight: &Tensor<(Model<M>, Hidden<F>)>,
) -> Tensor<(Batch<B>, Hidden<F>)> {
    x.matmul(weight)
}
fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<4>>)>::zeros();
    project(&x, &Tensor::<(Model<C<4>>, Hidden<C<4>>)>::zeros());
}
