use shapeproof::{C, HeadDim, Key, Query, Tensor};

fn main() {
    let q = Tensor::<(Query<C<2>>, HeadDim<C<8>>)>::zeros();
    let k = Tensor::<(Key<C<3>>, HeadDim<C<8>>)>::zeros();
    let _scores = q.dot(&k, HeadDim);
}
