use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::zeros();
    let y = Tensor::<(Model<C<8>>, Batch<C<2>>)>::zeros();
    let _z = x.mul(&y);
}
