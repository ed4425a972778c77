use shapeproof::{C, LayerNorm, Model};

#[allow(dead_code)]
struct Block {
    norm: LayerNorm<Model<C<8>>>,
}
fn main() {}
