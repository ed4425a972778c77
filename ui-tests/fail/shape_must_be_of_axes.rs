use shapeproof::{C, Tensor};

fn main() {
    let _x = Tensor::<(C<2>, C<8>)>::zeros();
}
