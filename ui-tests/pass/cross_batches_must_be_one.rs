use shapeproof::{Batch, C, Causal, Infer, Model, MultiHeadAttention, Seq, Tensor, dyn_size};

fn main() {
    dyn_size!(sources = 3, targets = 3);
    let attention = MultiHeadAttention::<C<4>, C<2>>::zeros();
    let x = Tensor::zeros_in((Batch(sources), Seq(C::<2>), Model(C::<4>)));
    let key = Tensor::zeros_in((Batch(sources), Seq(C::<3>), Model(C::<4>)));
    let value = Tensor::zeros_in((Batch(sources), Seq(C::<3>), Model(C::<4>)));
    attention.cross(&x, &key, &value, Causal, &mut Infer);
    let _ = targets;
}
