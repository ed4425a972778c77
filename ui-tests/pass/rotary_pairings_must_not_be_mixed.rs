use shapeproof::{Adjacent, C, Rotary};

fn serve(_rotary: &Rotary<C<8>, Adjacent>) {}

fn main() {
    let rotary = Rotary::<C<8>, Adjacent>::try_new(10_000.0).unwrap();
    serve(&rotary);
}
