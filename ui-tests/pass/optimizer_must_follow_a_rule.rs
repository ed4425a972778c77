use shapeproof::{Optimizer, Sgd};

fn main() {
    let optimizer = Optimizer::try_new(Sgd::default());
    assert!(optimizer.is_ok());
}
