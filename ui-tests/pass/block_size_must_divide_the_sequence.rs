use shapeproof::{BlockMask, C, Key, Query};

fn main() {
    let (query, key) = (Query(C::<96>), Key(C::<200>));
    BlockMask::from_fn::<C<8>>(query, key, |query, key| key <= query);
}
