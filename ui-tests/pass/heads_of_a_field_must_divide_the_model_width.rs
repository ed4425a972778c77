use shapeproof::{C, Generator, MultiHeadAttention};

struct Tower {
    attention: MultiHeadAttention<C<10>, C<5>>,
}
fn main() {
    let tower = Tower { attention: MultiHeadAttention::xavier(&mut Generator::seeded(1)) };
    let _query = tower.attention.q;
}
