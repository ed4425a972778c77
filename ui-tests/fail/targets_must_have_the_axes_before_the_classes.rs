use shapeproof::{Batch, C, Seq, Tensor, Vocab, try_cross_entropy};

fn main() {
    let logits = Tensor::<(Batch<C<2>>, Seq<C<5>>, Vocab<C<30>>)>::zeros();
    let targets = Tensor::<(Batch<C<2>>, Seq<C<4>>), u32>::zeros();
    try_cross_entropy(&logits, &targets).unwrap();
}
