use shapeproof::{Batch, C, GroupedAttention, Infer, KvHeads, Model, NoMask, Rotary, Seq, Tensor};

fn main() {
    let attention = GroupedAttention::<C<12>, C<4>, C<6>, KvHeads<C<2>>>::zeros();
    let table = Rotary::<C<6>>::try_new(10_000.0).unwrap().try_at(0, Seq(C::<4>)).unwrap();
    let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<12>>)>::zeros();
    attention.forward_rotated(&x, &table, NoMask, &mut Infer);
}
