use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let _x = Tensor::<(Batch<C<2>>, Model<C<3>>)>::from([[1.0, 2.0], [4.0, 5.0]]);
}
