use shapeproof::{Batch, Size, Tensor, dyn_size};

fn read<B: Size>(batch: B) -> Tensor<(Batch<B>,)> {
    let shape = (Batch(batch),);
    Tensor::zeros_in(shape)
}
fn main() {
    dyn_size!(batch = 3);
    let x = read(batch);
    assert_eq!(x.dims(), [3]);
}
