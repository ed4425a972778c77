use shapeproof::{C, Embedding, Model, Tensor, Vocab};

fn main() {
    let table = Tensor::<(Vocab<C<100>>, Model<C<6>>)>::zeros();
    let _embedding: Embedding<Vocab<C<100>>, Model<C<8>>> = Embedding::new(table);
}
