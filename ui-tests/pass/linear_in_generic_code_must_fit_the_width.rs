use shapeproof::{Batch, C, Hidden, Infer, Linear, Model, Size, Tensor};

fn up<B: Size, M: Size, F: Size>(
    layer: &Linear<Model<M>, Hidden<F>>,
    x: &Tensor<(Batch<B>, Model<M>)>,
) {
    layer.forward(x, &mut Infer);
}
fn main() {
    up(
        &Linear::<Model<C<4>>, Hidden<C<4>>>::zeros(),
        &Tensor::<(Batch<C<2>>, Model<C<4>>)>::zeros(),
    );
}
