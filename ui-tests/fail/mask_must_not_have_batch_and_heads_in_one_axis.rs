use shapeproof::{Batch, C, Folded, Heads, Infer, Key, Model, MultiHeadAttention, Query, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    let tiled = Tensor::<(Folded<Heads<C<2>>, Batch<C<2>>>, Query<C<5>>, Key<C<5>>), bool>::zeros();
    attention.forward(&x, &tiled, &mut Infer);
}
