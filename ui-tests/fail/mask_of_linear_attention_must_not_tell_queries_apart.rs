use shapeproof::{Batch, C, FeatureMap, HeadDim, Heads, Key, LinearAttention, Query, Tensor};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Heads<C<2>>, Query<C<3>>, HeadDim<C<4>>)>::ones();
    let k = Tensor::<(Batch<C<2>>, Heads<C<2>>, Key<C<5>>, HeadDim<C<4>>)>::ones();
    let mask = Tensor::<(Query<C<3>>, Key<C<5>>), bool>::full(true);
    LinearAttention::new(FeatureMap::Relu).apply(&q, &k, &k, &mask);
}
