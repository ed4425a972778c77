use shapeproof::{Batch, C, Embedding, Infer, Model, Seq, Tensor, Vocab};

fn main() {
    let embedding = Embedding::<Vocab<C<100>>, Model<C<8>>>::zeros();
    let tokens = Tensor::<(Batch<C<2>>, Seq<C<5>>), u32>::zeros();
    let x = embedding.try_forward(&tokens, &mut Infer);
    assert!(x.is_ok());
}
