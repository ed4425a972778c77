use shapeproof::{C, DivisibleBy, MultiHeadAttention, Static};

fn build<M: DivisibleBy<H>, H: Static>() -> MultiHeadAttention<M, H> {
    MultiHeadAttention::zeros()
}
fn main() {
    let _attention = build::<C<512>, C<8>>();
}
