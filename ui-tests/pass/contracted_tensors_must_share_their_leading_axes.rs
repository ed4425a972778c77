use shapeproof::{Batch, C, HeadDim, Key, Query, Tensor};

fn main() {
    let q = Tensor::<(Batch<C<2>>, Query<C<2>>, HeadDim<C<8>>)>::zeros();
    let k = Tensor::<(Batch<C<2>>, Key<C<3>>, HeadDim<C<8>>)>::zeros();
    let _scores = q.dot(&k, HeadDim);
}
