use shapeproof::{C, Linear, Model, count_parameters};

struct Mine {
    linear: Linear<Model<C<4>>, Model<C<4>>>,
}
fn main() {
    let mine = Mine { linear: Linear::zeros() };
    assert_eq!(count_parameters(&mine), 20);
    let _linear = mine.linear;
}
