use shapeproof::{C, Rotary};

fn main() {
    let _rotary = Rotary::<C<6>>::try_new(10_000.0);
}
