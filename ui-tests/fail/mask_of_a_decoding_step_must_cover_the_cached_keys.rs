use shapeproof::{Batch, C, HeadDim, Heads, Key, KvCache, Query, Seq, Tensor, dyn_size, scaled_dot_product_attention};

fn main() {
    let mut cache = KvCache::<C<1>, Heads<C<2>>, C<8>, C<4>>::try_new(1).unwrap();
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    let new = Tensor::<(Batch<C<1>>, Heads<C<2>>, Key<C<1>>, HeadDim<C<4>>)>::ones();
    step.append(0, &new, &new).unwrap();
    dyn_size!(keys = step.keys());
    let (k, v) = step.view(0, Key(keys)).unwrap();
    let q = Tensor::<(Batch<C<1>>, Heads<C<2>>, Query<C<1>>, HeadDim<C<4>>)>::ones();
    let mask = Tensor::full_in((Query(C::<1>), Key(C::<1>)), true);
    scaled_dot_product_attention(&q, &k, &v, &mask);
}
