use shapeproof::{Batch, C, Plus, Seq, Size, Tensor};

fn join<B: Size, S: Size + Plus<T>, T: Size>(
    past: &Tensor<(Batch<B>, Seq<S>)>,
    new: &Tensor<(Batch<B>, Seq<T>)>,
) {
    let _all = past.concat(new, Seq);
}
fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>)>::zeros();
    join(&x, &x);
}
