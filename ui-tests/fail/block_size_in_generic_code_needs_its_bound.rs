use shapeproof::{BlockMask, Key, Query, Static};

fn lower<S: Static, L: Static>() -> BlockMask<L, L> {
    let (query, key) = (Query(L::default()), Key(L::default()));
    BlockMask::from_fn::<S>(query, key, |query, key| key <= query)
}

fn main() {
    lower::<shapeproof::C<4>, shapeproof::C<16>>();
}
