use shapeproof::{C, Heads, KvCache, Result, Size};

fn empty<B: Size>(_: B) -> Result<KvCache<B, Heads<C<2>>, C<8>, C<4>>> {
    KvCache::try_new(1)
}

fn main() {
    assert!(empty(C::<1>).is_ok());
}
