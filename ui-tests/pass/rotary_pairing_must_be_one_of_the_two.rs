use shapeproof::{C, Rotary, SplitHalf};

fn main() {
    let _rotary = Rotary::<C<8>, SplitHalf>::try_new(10_000.0);
}
