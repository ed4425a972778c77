use shapeproof::{Batch, C, Seq, Tensor};

fn main() {
    let scores = Tensor::<(Batch<C<2>>, Seq<C<3>>)>::zeros();
    let _weights = scores.softmax(Seq);
}
