use shapeproof::{C, Linear, Model, Module, Static, parameters};

struct Mine<M> {
    linear: Linear<Model<M>, Model<M>>,
}
impl<M: Static> Module for Mine<M> {
    parameters!(linear);
}
fn main() {
    let mine = Mine::<C<4>> { linear: Linear::zeros() };
    assert_eq!(parameters(&mine).len(), 2);
}
