use shapeproof::{C, Size};

type Two = C<2>;
fn main() {
    assert_eq!(Two::default().get(), 2);
}
