use shapeproof::{C, Gradients, Hidden, Linear, Model, Static};

fn step<M: Static, F: Static, G: Static>(
    up: &Linear<Model<M>, Hidden<F>>,
    gate: &mut Linear<Model<M>, Hidden<G>>,
    gradients: &Gradients,
) {
    gate.weight.set(gradients.of(&up.weight));
}

fn main() {
    step::<C<8>, C<16>, C<12>>(&Linear::zeros(), &mut Linear::zeros(), &Gradients::default());
}
