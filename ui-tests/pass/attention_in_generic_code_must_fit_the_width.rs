use shapeproof::{
    Batch, C, DivisibleBy, Infer, Model, MultiHeadAttention, NoMask, Seq, Size, Static, Tensor,
};

fn attend<B: Size, S: Size, M: DivisibleBy<H>, H: Static>(
    attention: &MultiHeadAttention<M, H>,
    x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
) {
    attention.forward(x, NoMask, &mut Infer);
}
fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    attend(&attention, &Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<8>>)>::zeros());
}
