use shapeproof::Optimizer;

fn main() {
    let optimizer = Optimizer::try_new(0.1);
    assert!(optimizer.is_ok());
}
