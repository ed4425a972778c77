use shapeproof::{Batch, C, Result, Seq, Tensor};

fn first(x: &Tensor<(Batch<C<2>>, Seq<C<8>>)>) -> Result<Tensor<(Batch<C<2>>, Seq<C<4>>)>> {
    x.try_slice(Seq, 0, C::<4>)
}
fn main() {
    assert!(first(&Tensor::zeros()).is_ok());
}
