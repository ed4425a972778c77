use shapeproof::{C, Hidden, Linear, Model, NoBias};

#[allow(dead_code)]
struct Up {
    layer: Linear<Model<C<8>>, Hidden<C<16>>, NoBias>,
}
fn main() {}
