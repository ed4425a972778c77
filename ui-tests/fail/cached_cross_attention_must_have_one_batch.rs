use shapeproof::{Batch, C, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor};

fn main() {
    let attention = MultiHeadAttention::<C<8>, C<2>>::zeros();
    let memory = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::ones();
    let cached = attention.cross_keys_and_values(&memory, &memory, &mut Infer);
    let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<8>>)>::ones();
    attention.cross_cached(&x, &cached, NoMask, &mut Infer);
}
