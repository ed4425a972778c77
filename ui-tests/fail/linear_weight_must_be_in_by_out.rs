use shapeproof::{C, Hidden, Linear, Model, Tensor};

fn main() {
    let weight = Tensor::<(Hidden<C<16>>, Model<C<8>>)>::zeros();
    let _layer: Linear<Model<C<8>>, Hidden<C<16>>> = Linear::new(weight, Tensor::zeros());
}
