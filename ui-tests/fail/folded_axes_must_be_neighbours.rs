use shapeproof::{Batch, C, Heads, Key, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Heads<C<3>>, Key<C<4>>)>::zeros();
    let _y = x.fold(Batch, Key);
}
