use shapeproof::{Batch, C, Model, Tensor, axis};

axis!(Speaker);
fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>)>::zeros();
    let _sum = x.sum(Speaker);
    let _samples = Batch(C::<2>);
}
