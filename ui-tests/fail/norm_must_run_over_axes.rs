use shapeproof::{C, LayerNorm};

#[allow(dead_code)]
struct Block {
    norm: LayerNorm<C<8>>,
}
fn main() {}
