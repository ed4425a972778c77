use shapeproof::{Batch, Tensor, dyn_size};

fn main() {
    let x;
    {
        dyn_size!(batch = 3);
        x = Tensor::<_, f32>::zeros_in((Batch(batch),));
    }
    assert_eq!(x.dims(), [3]);
}
