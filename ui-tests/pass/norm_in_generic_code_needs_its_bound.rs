use shapeproof::{C, LayerNorm, Model, Size};

#[allow(dead_code)]
struct Block<M: Size> {
    norm: LayerNorm<Model<M>>,
}
fn main() {
    let _block = Block::<C<8>> { norm: LayerNorm::new(1e-5) };
}
