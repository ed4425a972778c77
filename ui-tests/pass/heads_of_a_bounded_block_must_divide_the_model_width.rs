use shapeproof::{C, DivisibleBy, MultiHeadAttention, Static};

struct Block<M, H> {
    attention: MultiHeadAttention<M, H>,
}
impl<M: DivisibleBy<H>, H: Static> Block<M, H> {
    fn zeros() -> Self {
        Block { attention: MultiHeadAttention::zeros() }
    }
}
fn main() {
    let block: Block<C<512>, C<8>> = Block::zeros();
    let _query = block.attention.q;
}
