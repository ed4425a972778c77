use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let other = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let memory = Tensor::<(Batch<C<1>>, Seq<C<5>>, Model<C<8>>)>::ones();
    let cached = attention.cross_keys_and_values(&memory, &memory, &mut Infer);
    other.cross_cached(&memory, &cached, NoMask, &mut Infer);
}
