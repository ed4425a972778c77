use shapeproof::{C, Gradients, Hidden, Linear, Model, Tensor};

fn main() {
    let layer = Linear::<Model<C<8>>, Hidden<C<16>>>::zeros();
    let step: Tensor<(Model<C<8>>, Hidden<C<12>>)> = Gradients::default().of(&layer.weight);
    assert_eq!(step, Tensor::zeros());
}
