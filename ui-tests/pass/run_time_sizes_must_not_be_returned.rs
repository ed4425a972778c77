use shapeproof::{AnyTensor, Batch, Tensor, dyn_size};

fn read(n: usize) -> AnyTensor {
    dyn_size!(batch = n);
    Tensor::zeros_in((Batch(batch),)).erase()
}
fn main() {
    assert_eq!(read(3).dims(), [3]);
}
