use shapeproof::{Batch, C, Seq, Tensor};

fn main() {
    let past = Tensor::<(Batch<C<1>>, Seq<C<2000>>)>::zeros();
    let new = Tensor::<(Batch<C<1>>, Seq<C<501>>)>::zeros();
    let _all = past.concat(&new, Seq);
}
