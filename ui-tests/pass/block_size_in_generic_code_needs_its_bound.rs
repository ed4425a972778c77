use shapeproof::{BlockMask, Key, Query, Splits, Static};

fn lower<S: Splits<L>, L: Static>() -> BlockMask<L, L> {
    let (query, key) = (Query(L::default()), Key(L::default()));
    BlockMask::from_fn::<S>(query, key, |query, key| key <= query)
}

fn main() {
    lower::<shapeproof::C<4>, shapeproof::C<16>>();
}
