use shapeproof::{Batch, C, Causal, FeatureMap, HeadDim, Heads, Key, KvHeads, LinearAttention, Query, Static, Tensor};

fn mean<G: Static>(
    q: &Tensor<(Batch<C<1>>, Heads<C<6>>, Query<C<3>>, HeadDim<C<4>>)>,
    k: &Tensor<(Batch<C<1>>, KvHeads<G>, Key<C<5>>, HeadDim<C<4>>)>,
) -> f32
{
    LinearAttention::new(FeatureMap::Relu).apply(q, k, k, Causal).sum_all().value()
}

fn main() {
    let k = Tensor::<(Batch<C<1>>, KvHeads<C<2>>, Key<C<5>>, HeadDim<C<4>>)>::ones();
    assert!(mean(&Tensor::ones(), &k).is_finite());
}
