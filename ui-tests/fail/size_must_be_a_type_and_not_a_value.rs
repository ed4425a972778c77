use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let batch = 2_usize;
    let _x = Tensor::<_, f32>::zeros_in((Batch(batch), Model(C::<8>)));
}
