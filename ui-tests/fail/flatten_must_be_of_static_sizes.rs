use shapeproof::{Batch, C, Seq, Tensor, dyn_size};

fn main() {
    dyn_size!(batch = 2);
    let x = Tensor::<_, f32>::zeros_in((Batch(batch), Seq(C::<3>)));
    let _flat = x.flatten();
    let _ = batch;
}
