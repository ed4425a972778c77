use shapeproof::{Batch, C, HeadDim, Key, Query, Tensor};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Query<C<3>>, HeadDim<C<4>>)>::zeros();
    let k = Tensor::<(Batch<C<1>>, HeadDim<C<4>>, Key<C<3>>)>::zeros();
    let _scores = q.matmul(&k);
}
