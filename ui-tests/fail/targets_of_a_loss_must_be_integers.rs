use shapeproof::{Batch, C, Tensor, Vocab, try_cross_entropy};

fn main() {
    let logits = Tensor::<(Batch<C<2>>, Vocab<C<30>>)>::zeros();
    let targets = Tensor::<(Batch<C<2>>,), f32>::zeros();
    try_cross_entropy(&logits, &targets).unwrap();
}
