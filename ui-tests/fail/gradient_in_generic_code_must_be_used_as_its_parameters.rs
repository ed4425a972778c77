use shapeproof::{C, Gradients, Hidden, LayerNorm, Linear, Model, Static};

fn step<M: Static>(
    norm: &LayerNorm<Model<M>>,
    map: &mut Linear<Model<M>, Hidden<M>>,
    gradients: &Gradients,
) {
    map.bias.set(gradients.of(&norm.bias));
}

fn main() {
    step::<C<8>>(&LayerNorm::new(1e-5), &mut Linear::zeros(), &Gradients::default());
}
