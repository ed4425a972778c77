use shapeproof::{C, Hidden, Linear, Model};

#[allow(dead_code)]
struct Up {
    layer: Linear<Model<C<8>>, Hidden<C<16>>, f32>,
}
fn main() {}
