use shapeproof::{Batch, C, Model, Size, Tensor};

fn padding<B: Size>(batch: B) -> Tensor<(Batch<B>, Model<C<8>>)> {
    Tensor::zeros_in((Batch(batch), Model(C)))
}
fn main() {
    padding(C::<2>);
}
