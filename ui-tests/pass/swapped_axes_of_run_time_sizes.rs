use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor, dyn_size};

fn main() {
    dyn_size!(batch = 2, length = 7);
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::zeros_in((Batch(batch), Seq(length), Model(C::<8>)));
    attention.forward(&x, NoMask, &mut Infer);
}
