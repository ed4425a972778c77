use shapeproof::{C, Rotary, Seq};

fn main() {
    let _rotary = Rotary::<C<8>, Seq<C<4>>>::try_new(10_000.0);
}
