use shapeproof::{Batch, C, Infer, Key, Model, MultiHeadAttention, Query, ScoreBias, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    let mask = Tensor::<(Query<C<5>>, Key<C<6>>)>::zeros();
    attention.forward(&x, ScoreBias(mask), &mut Infer);
}
