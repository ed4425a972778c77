use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let _x = Tensor::<(Batch<C<2>>, Model<C<8>>)>::zeros();
}
