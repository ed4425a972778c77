use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<4>, C<2>, C<6>>::zeros();
    let x = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<4>>)>::zeros();
    attention.forward(&x, NoMask, &mut Infer);
}
