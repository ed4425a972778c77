use shapeproof::{Batch, Size, Tensor, dyn_size};

fn both<B: Size>(_x: &Tensor<(Batch<B>,)>, _y: &Tensor<(Batch<B>,)>) {}
fn main() {
    dyn_size!(batch = 3, other = 3);
    let x = Tensor::zeros_in((Batch(batch),));
    let y = Tensor::zeros_in((Batch(other),));
    both(&x, &y);
    let _ = other;
}
