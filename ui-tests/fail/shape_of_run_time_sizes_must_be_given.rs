use shapeproof::{Batch, C, Model, Size, Tensor};

fn padding<B: Size>(_batch: B) -> Tensor<(Batch<B>, Model<C<8>>)> {
    Tensor::zeros()
}
fn main() {
    padding(C::<2>);
}
