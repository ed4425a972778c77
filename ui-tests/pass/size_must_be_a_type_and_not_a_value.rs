use shapeproof::{Batch, C, Model, Tensor, dyn_size};

fn main() {
    dyn_size!(batch = 2);
    let _x = Tensor::<_, f32>::zeros_in((Batch(batch), Model(C::<8>)));
}
