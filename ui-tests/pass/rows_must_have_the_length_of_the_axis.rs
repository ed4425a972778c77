use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<3>>)>::zeros();
    let rows: Option<&[[f32; 3]]> = x.as_arrays();
    assert!(rows.is_some());
}
