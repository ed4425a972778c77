use shapeproof::{Batch, C, HeadDim, Key, KvHeads, Rotary, Tensor};

fn main() {
    let positions = Tensor::<(Batch<C<2>>, Key<C<4>>), usize>::zeros();
    let table = Rotary::<C<8>>::try_new(1e4).unwrap().try_at_positions(&positions).unwrap();
    let keys = Tensor::<(Batch<C<2>>, KvHeads<C<2>>, Key<C<4>>, HeadDim<C<8>>)>::zeros();
    table.rotate(&keys);
}
