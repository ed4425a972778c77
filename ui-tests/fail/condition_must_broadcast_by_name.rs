use shapeproof::{Batch, C, Key, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Key<C<3>>)>::zeros();
    let keep = Tensor::<(Key<C<4>>,), bool>::zeros();
    let _y = x.where_or(&keep, &Tensor::scalar(0.0));
}
