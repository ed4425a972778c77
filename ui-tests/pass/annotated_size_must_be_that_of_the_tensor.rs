use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    let _mean: Tensor<(Batch<C<2>>, Model<C<8>>)> = x.mean(Seq);
}
