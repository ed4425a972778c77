use shapeproof::{C, Result, Rotary};

fn main() {
    let _rotary: Result<Rotary<C<5>>> = Rotary::try_new(10_000.0);
}
