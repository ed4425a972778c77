use shapeproof::{Batch, C, Infer, Key, Model, MultiHeadAttention, Query, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    let by_sample = Tensor::<(Batch<C<2>>, Query<C<5>>, Key<C<5>>), bool>::zeros();
    attention.forward(&x, &by_sample, &mut Infer);
}
