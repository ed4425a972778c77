use shapeproof::{Batch, C, CrossEntropy, Tensor, Vocab};

fn main() {
    let logits = Tensor::<(Batch<C<2>>, Vocab<C<30>>)>::zeros();
    let targets = Tensor::<(Batch<C<2>>,), u32>::zeros();
    let weights = Tensor::<(Vocab<C<30>>,)>::ones();
    CrossEntropy::new().weighted(&weights).try_of(&logits, &targets).unwrap();
}
