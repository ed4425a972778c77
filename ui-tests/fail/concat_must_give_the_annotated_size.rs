use shapeproof::{Batch, C, Seq, Tensor};

fn main() {
    let past = Tensor::<(Batch<C<2>>, Seq<C<3>>)>::zeros();
    let new = Tensor::<(Batch<C<2>>, Seq<C<4>>)>::zeros();
    let _all: Tensor<(Batch<C<2>>, Seq<C<8>>)> = past.concat(&new, Seq);
}
