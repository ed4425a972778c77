use shapeproof::{C, Gradients, LayerNorm, Model};

fn main() {
    let gradients = Gradients::default();
    let mut norm = LayerNorm::<Model<C<8>>>::new(1e-5);
    let wide = LayerNorm::<Model<C<16>>>::new(1e-5);
    norm.weight.set(gradients.of(&norm.weight));
    gradients.of(&wide.weight);
}
