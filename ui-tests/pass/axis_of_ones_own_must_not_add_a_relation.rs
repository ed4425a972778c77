use shapeproof::{Axis, Batch, C, HasAxis, Marker, Size, Tensor, axis};

axis!(Speaker);

fn entries<S: HasAxis<Speaker<C<3>>, I>, I: Marker>(x: Tensor<S>) -> usize {
    x.shape().axis().size().get()
}
fn main() {
    let x = Tensor::<(Batch<C<2>>, Speaker<C<3>>)>::ones();
    assert_eq!(x.sum(Speaker).to_vec(), [3.0, 3.0]);
    assert_eq!(entries(x), 3);
}
