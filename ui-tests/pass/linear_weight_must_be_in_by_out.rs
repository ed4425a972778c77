use shapeproof::{C, Hidden, Linear, Model, Tensor};

fn main() {
    let weight = Tensor::<(Model<C<8>>, Hidden<C<16>>)>::zeros();
    let _layer: Linear<Model<C<8>>, Hidden<C<16>>> = Linear::new(weight, Tensor::zeros());
}
