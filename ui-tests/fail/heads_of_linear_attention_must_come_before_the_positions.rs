use shapeproof::{Batch, C, Causal, FeatureMap, HeadDim, Heads, Key, LinearAttention, Query, Tensor};

fn main() {
    let q = Tensor::<(Batch<C<1>>, Heads<C<2>>, Query<C<2>>, HeadDim<C<1>>)>::ones();
    let k = Tensor::<(Batch<C<1>>, Key<C<2>>, Heads<C<2>>, HeadDim<C<1>>)>::ones();
    let v = Tensor::<(Batch<C<1>>, Heads<C<2>>, Key<C<2>>, HeadDim<C<1>>)>::ones();
    LinearAttention::new(FeatureMap::Relu).apply(&q, &k, &v, Causal);
}
