use shapeproof::{C, Result, Rotary, RotaryWidth};

fn build<R: RotaryWidth>() -> Result<Rotary<R>> {
    Rotary::try_new(10_000.0)
}
fn main() {
    let _rotary = build::<C<6>>();
}
