use shapeproof::{DivisibleBy, Module, MultiHeadAttention, Static, dispatch};

fn build<M: DivisibleBy<H>, H: Static>() -> Box<dyn Module> {
    Box::new(MultiHeadAttention::<M, H>::zeros())
}
fn main() {
    let (width, heads) = (8, 2);
    let model = dispatch!((width, heads) as (M, H) in [(8, 2), (10, 3)] => build::<M, H>());
    assert!(model.is_ok());
}
