use shapeproof::{C, Model, Tensor, axis, try_stack};

axis!(Layer);
fn main() {
    let x = Tensor::<(Model<C<8>>,)>::zeros();
    let y = Tensor::<(Model<C<8>>,)>::zeros();
    let both = try_stack([&x, &y], Layer);
    assert!(both.is_ok());
}
