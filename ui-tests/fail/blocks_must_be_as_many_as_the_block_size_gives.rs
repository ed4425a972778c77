use shapeproof::{BlockMask, C, Key, Query, Tensor};

fn main() {
    let visible = Tensor::<(Query<C<2>>, Key<C<3>>), bool>::zeros();
    BlockMask::from_blocks::<C<50>>(Query(C::<100>), Key(C::<200>), &visible);
}
