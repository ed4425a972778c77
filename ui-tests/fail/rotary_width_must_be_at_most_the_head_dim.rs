use shapeproof::{Batch, C, HeadDim, Heads, Query, Rotary, Seq, Tensor};

fn main() {
    let table = Rotary::<C<8>>::try_new(10_000.0).unwrap().try_at(0, Seq(C::<3>)).unwrap();
    let queries = Tensor::<(Batch<C<1>>, Heads<C<2>>, Query<C<3>>, HeadDim<C<6>>)>::zeros();
    table.rotate(&queries);
}
