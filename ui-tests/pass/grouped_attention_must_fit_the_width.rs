use shapeproof::{Batch, C, Causal, GroupedAttention, Infer, KvHeads, Model, Seq, Tensor};

fn main() {
    let attention = GroupedAttention::<C<20>, C<6>, C<4>, KvHeads<C<3>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<20>>)>::zeros();
    attention.forward(&x, Causal, &mut Infer);
}
