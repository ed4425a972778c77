use shapeproof::{C, Gradients, Hidden, Linear, Model, Static};

fn step<M: Static, F: Static>(
    up: &Linear<Model<M>, Hidden<F>>,
    gate: &mut Linear<Model<M>, Hidden<F>>,
    gradients: &Gradients,
) {
    gate.weight.set(gradients.of(&up.weight));
}

fn main() {
    step::<C<8>, C<16>>(&Linear::zeros(), &mut Linear::zeros(), &Gradients::default());
}
