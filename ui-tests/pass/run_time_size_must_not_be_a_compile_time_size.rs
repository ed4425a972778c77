use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor, dyn_size};

fn main() {
    dyn_size!(width = 8);
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::zeros_in((Batch(C::<2>), Seq(C::<3>), Model(C::<8>)));
    attention.forward(&x, NoMask, &mut Infer);
    let _ = width;
}
