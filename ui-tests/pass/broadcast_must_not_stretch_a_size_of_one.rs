use shapeproof::{Batch, C, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>)>::zeros();
    let y = Tensor::<(Batch<C<2>>, Seq<C<3>>)>::zeros();
    let _z = x.add(&y);
}
