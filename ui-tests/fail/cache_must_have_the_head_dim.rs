use shapeproof::{Batch, C, HeadDim, Key, KvCache, KvHeads, Seq, Tensor};

fn main() {
    let mut cache = KvCache::<C<2>, KvHeads<C<2>>, C<8>, C<4>>::try_new(1).unwrap();
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    let k = Tensor::<(Batch<C<2>>, KvHeads<C<2>>, Key<C<1>>, HeadDim<C<6>>)>::ones();
    let v = Tensor::<(Batch<C<2>>, KvHeads<C<2>>, Key<C<1>>, HeadDim<C<4>>)>::ones();
    step.append(0, &k, &v).unwrap();
}
