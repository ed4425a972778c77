use shapeproof::{Batch, C, GroupedAttention, Infer, KvHeads, Model, NoMask, Seq, Tensor};

fn main() {
    let attention = GroupedAttention::<C<20>, C<6>, C<4>, KvHeads<C<3>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<20>>)>::zeros();
    let (q, k, v) = attention.project(&x, &mut Infer);
    attention.attention.apply(&q, &k, &v, NoMask);
    let _ = q;
}
