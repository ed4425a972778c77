use shapeproof::{Batch, C, HeadDim, Heads, Key, KvCache, ValueDim};

fn main() {
    let cache: KvCache<C<1>, Heads<C<2>>, C<8>, C<4>, ValueDim<C<3>>> =
        KvCache::try_new_in((Batch(C), Heads(C), Key(C), HeadDim(C)), ValueDim(C::<3>), 1).unwrap();
    assert_eq!(cache.layers(), 1);
}
