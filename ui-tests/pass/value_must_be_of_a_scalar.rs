use shapeproof::{C, Key, Tensor};

fn main() {
    let x = Tensor::<(Key<C<3>>,)>::zeros();
    assert_eq!(x.mean(Key).value(), 0.0);
}
