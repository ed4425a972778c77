use shapeproof::{C, Rotary};

fn main() {
    let _rotary = Rotary::<C<5>>::try_new(10_000.0);
}
