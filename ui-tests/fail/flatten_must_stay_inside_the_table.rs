use shapeproof::{Batch, C, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<3>>, Seq<C<1000>>)>::zeros();
    let _flat = x.flatten();
}
