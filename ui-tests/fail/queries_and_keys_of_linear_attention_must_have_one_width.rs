use shapeproof::{Batch, C, FeatureMap, HeadDim, Heads, Key, LinearAttention, NoMask, Query, Tensor};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Heads<C<2>>, Query<C<3>>, HeadDim<C<4>>)>::ones();
    let k = Tensor::<(Batch<C<2>>, Heads<C<2>>, Key<C<5>>, HeadDim<C<6>>)>::ones();
    let v = Tensor::<(Batch<C<2>>, Heads<C<2>>, Key<C<5>>, HeadDim<C<6>>)>::ones();
    LinearAttention::new(FeatureMap::Relu).apply(&q, &k, &v, NoMask);
}
