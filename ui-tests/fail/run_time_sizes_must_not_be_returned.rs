use shapeproof::{Batch, Size, Tensor, dyn_size};

fn read(n: usize) -> Tensor<(Batch<impl Size>,)> {
    dyn_size!(batch = n);
    Tensor::zeros_in((Batch(batch),))
}
fn main() {
    assert_eq!(read(3).dims(), [3]);
}
