use shapeproof::{Batch, C, Infer, Key, Model, MultiHeadAttention, Seq, Size, Tensor};

fn attend<B: Size, S: Size, T: Size>(
    attention: &MultiHeadAttention<C<8>, C<2>>,
    x: &Tensor<(Batch<B>, Seq<S>, Model<C<8>>)>,
    keep: &Tensor<(Batch<B>, Key<S>), bool>,
    _other: T,
) {
    attention.forward(x, keep, &mut Infer);
}
fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let x = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<8>>)>::zeros();
    attend(&attention, &x, &Tensor::<(Batch<C<1>>, Key<C<2>>), bool>::zeros(), C::<2>);
}
