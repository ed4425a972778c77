use shapeproof::{Batch, C, HeadDim, Heads, Key, KvCache, KvHeads, Query, Result, Seq, Size, Tensor};

fn keep<B: Size, H: Size, G: Size, D: Size>(
    cache: &mut KvCache<B, KvHeads<G>, C<8>, D>,
    keys: &Tensor<(Batch<B>, KvHeads<H>, Key<C<1>>, HeadDim<D>)>,
    queries: &Tensor<(Batch<B>, Heads<H>, Query<C<1>>, HeadDim<D>)>,
) -> Result<usize> {
    let mut step = cache.begin(Seq(C::<1>))?;
    step.append(0, keys, keys)?;
    step.commit()?;
    Ok(queries.count())
}

fn main() {
    let mut cache = KvCache::<C<1>, KvHeads<C<2>>, C<8>, C<4>>::try_new(1).unwrap();
    let keys = Tensor::<(Batch<C<1>>, KvHeads<C<6>>, Key<C<1>>, HeadDim<C<4>>)>::ones();
    let queries = Tensor::<(Batch<C<1>>, Heads<C<6>>, Query<C<1>>, HeadDim<C<4>>)>::ones();
    keep(&mut cache, &keys, &queries).unwrap();
}
