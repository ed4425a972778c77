use shapeproof::{Batch, C, Hidden, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor};

type Input<W> = Tensor<(Batch<C<2>>, Seq<C<5>>, W)>;
fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let (model, hidden) = (Input::<Model<C<8>>>::zeros(), Input::<Hidden<C<8>>>::zeros());
    attention.forward(&model, NoMask, &mut Infer);
    assert_eq!(model.to_vec(), hidden.to_vec());
}
