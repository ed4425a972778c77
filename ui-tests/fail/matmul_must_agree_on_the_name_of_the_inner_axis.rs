use shapeproof::{Batch, C, Hidden, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>)>::zeros();
    let weight = Tensor::<(Hidden<C<8>>, Model<C<8>>)>::zeros();
    let _y = x.matmul(&weight);
}
