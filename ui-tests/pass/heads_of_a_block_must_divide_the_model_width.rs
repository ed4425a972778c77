use shapeproof::{C, DivisibleBy, MultiHeadAttention, Static};

struct Block<M, H> {
    attention: MultiHeadAttention<M, H>,
}
impl<M, H> Block<M, H> {
    fn zeros() -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
    {
        Block { attention: MultiHeadAttention::zeros() }
    }
}
fn main() {
    let block = Block::<C<512>, C<8>>::zeros();
    let _query = block.attention.q;
}
