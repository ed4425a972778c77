use shapeproof::{Batch, Tensor, dyn_size};

fn main() {
    dyn_size!(batch = 3, other = 3);
    let x = Tensor::<_, f32>::zeros_in((Batch(batch),));
    let y = Tensor::<_, f32>::zeros_in((Batch(batch),));
    let _z = x.add(&y);
    let _ = other;
}
