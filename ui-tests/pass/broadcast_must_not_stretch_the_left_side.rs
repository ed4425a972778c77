use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::zeros();
    let bias = Tensor::<(Model<C<8>>,)>::zeros();
    let _y = x.sub(&bias);
}
