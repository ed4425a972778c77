use shapeproof::{Batch, Size, Tensor, dyn_size};

fn read<B: Size>(n: usize) -> Tensor<(Batch<B>,)> {
    dyn_size!(batch = n);
    let shape = (Batch(batch),);
    Tensor::zeros_in(shape)
}
fn main() {
    let x = read::<shapeproof::C<3>>(3);
    assert_eq!(x.dims(), [3]);
}
