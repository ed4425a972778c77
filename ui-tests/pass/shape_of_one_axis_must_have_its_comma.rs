#![allow(unused_parens)]
use shapeproof::{C, Model, Tensor};

fn main() {
    let _x = Tensor::<(Model<C<8>>,)>::zeros();
}
