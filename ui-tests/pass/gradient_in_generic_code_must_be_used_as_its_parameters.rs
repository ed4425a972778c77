use shapeproof::{C, Gradients, Hidden, LayerNorm, Linear, Model, Static};

fn step<M: Static>(
    norm: &mut LayerNorm<Model<M>>,
    map: &mut Linear<Model<M>, Hidden<M>>,
    gradients: &Gradients,
) {
    map.bias.set(gradients.of(&map.bias));
    norm.bias.set(gradients.of(&norm.bias));
}

fn main() {
    step::<C<8>>(&mut LayerNorm::new(1e-5), &mut Linear::zeros(), &Gradients::default());
}
