use shapeproof::{C, Result, Rotary, RotaryScaling};

struct Block {
    rotary: Rotary<C<6>>,
}

fn build() -> Result<Block> {
    Ok(Block { rotary: Rotary::try_scaled(10_000.0, RotaryScaling::None)? })
}
fn main() {
    let _frequencies = build().unwrap().rotary.frequencies().len();
}
