use shapeproof::{C, DivisibleBy, Generator, MultiHeadAttention, Static};

fn build<M: DivisibleBy<H>, H: Static>(generator: &mut Generator) -> MultiHeadAttention<M, H> {
    MultiHeadAttention::xavier(generator)
}
fn main() {
    let _attention = build::<C<8>, C<2>>(&mut Generator::seeded(1));
}
