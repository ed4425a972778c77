use shapeproof::{C, Hidden, Linear, Model, Tensor};

fn main() {
    let weight = Tensor::<(Model<C<8>>, Hidden<C<16>>)>::zeros();
    let bias = Tensor::<(Hidden<C<8>>,)>::zeros();
    let _layer: Linear<_, _> = Linear::new(weight, bias);
}
