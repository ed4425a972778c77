use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<384>, C<12>>::zeros();
    let x = Tensor::<(Batch<C<5>>, Seq<C<5>>, Model<C<384>>)>::zeros();
    attention.forward(&x, NoMask, &mut Infer);
}
