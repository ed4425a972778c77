use shapeproof::{Batch, C, Embedding, Infer, Model, Tensor, Vocab};

fn main() {
    let embedding = Embedding::<Vocab<C<30>>, Model<C<8>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Model<C<9>>)>::zeros();
    embedding.unembed(&x, &mut Infer);
}
