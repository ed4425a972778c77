use shapeproof::{Batch, C, Tensor};

fn main() {
    let _x = Tensor::<(Batch<C<2>>,), String>::zeros();
}
