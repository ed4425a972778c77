use shapeproof::{Batch, C, Flat, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>)>::zeros();
    let _flat: Tensor<(Flat<C<6>>,)> = x.flatten();
}
