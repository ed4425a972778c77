use shapeproof::{Batch, C, HeadDim, Key, KvCache, KvHeads, Result, Seq, Size, Tensor};

fn keep<B: Size, G: Size, D: Size>(
    cache: &mut KvCache<B, KvHeads<G>, C<8>, D>,
    keys: &Tensor<(Batch<B>, KvHeads<C<2>>, Key<C<1>>, HeadDim<D>)>,
    values: &Tensor<(Batch<B>, KvHeads<G>, Key<C<1>>, HeadDim<D>)>,
) -> Result<()> {
    let mut step = cache.begin(Seq(C::<1>))?;
    step.append(0, keys, values)?;
    step.commit()
}

fn main() {
    let mut cache = KvCache::<C<1>, KvHeads<C<2>>, C<8>, C<4>>::try_new(1).unwrap();
    keep(&mut cache, &Tensor::ones(), &Tensor::ones()).unwrap();
}
