use shapeproof::{Batch, C, Infer, Key, Model, MultiHeadAttention, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    let mask = Tensor::<(Batch<C<2>>, Key<C<5>>), bool>::zeros();
    attention.forward(&x, &mask, &mut Infer);
}
