use shapeproof::{Batch, C, Key, Query, Tensor};

fn main() {
    let scores = Tensor::<(Batch<C<2>>, Query<C<3>>, Key<C<3>>)>::zeros();
    let _weights = scores.softmax(1);
}
