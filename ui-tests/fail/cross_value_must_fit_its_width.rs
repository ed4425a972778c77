use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<4>, C<2>, C<6>, C<2>>::zeros();
    let x = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<4>>)>::zeros();
    let key = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<6>>)>::zeros();
    let value = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<3>>)>::zeros();
    let y = attention.cross(&x, &key, &value, NoMask, &mut Infer);
    assert_eq!(y.dims(), [1, 2, 4]);
}
