use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>), f32>::zeros();
    attention.forward(&x, NoMask, &mut Infer);
}
