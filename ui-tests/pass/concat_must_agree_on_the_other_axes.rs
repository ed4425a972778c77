use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let past = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::zeros();
    let new = Tensor::<(Batch<C<2>>, Seq<C<4>>, Model<C<8>>)>::zeros();
    let _all = past.concat(&new, Seq);
}
