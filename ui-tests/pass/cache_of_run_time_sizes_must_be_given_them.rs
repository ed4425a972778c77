use shapeproof::{Batch, C, HeadDim, Heads, Key, KvCache, Result, Size};

fn empty<B: Size>(batch: B) -> Result<KvCache<B, Heads<C<2>>, C<8>, C<4>>> {
    KvCache::try_new_in((Batch(batch), Heads(C), Key(C), HeadDim(C)), HeadDim(C), 1)
}

fn main() {
    assert!(empty(C::<1>).is_ok());
}
