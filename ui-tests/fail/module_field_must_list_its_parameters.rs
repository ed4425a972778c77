use shapeproof::{C, Linear, Model, Module, Static, parameters};

struct Mine<M> {
    linear: Linear<Model<M>, Model<M>>,
}
struct Outer<M> {
    mine: Mine<M>,
}
impl<M: Static> Module for Outer<M> {
    parameters!(mine);
}
fn main() {
    let outer = Outer::<C<4>> { mine: Mine { linear: Linear::zeros() } };
    assert_eq!(parameters(&outer).len(), 2);
}
