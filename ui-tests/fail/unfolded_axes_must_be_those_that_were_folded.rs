use shapeproof::{Batch, C, Heads, Key, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Heads<C<3>>, Key<C<4>>)>::zeros();
    let folded = x.fold(Batch, Heads);
    let _y: Tensor<(Batch<C<2>>, Heads<C<3>>, Key<C<4>>)> = folded.unfold(Heads, Batch);
}
