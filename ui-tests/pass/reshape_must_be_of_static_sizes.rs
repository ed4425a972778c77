use shapeproof::{Batch, C, Flat, Seq, Tensor, dyn_size};

fn main() {
    dyn_size!(batch = 2);
    let x = Tensor::<_, f32>::zeros_in((Batch(C::<2>), Seq(C::<3>)));
    let _y: Tensor<(Flat<C<6>>,)> = x.reshape();
    let _ = batch;
}
