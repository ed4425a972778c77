use shapeproof::{C, Model, Tensor};

#[allow(unused_parens)]
fn main() {
    let _x = Tensor::<(Model<C<8>>,)>::zeros();
}
