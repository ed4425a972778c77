use shapeproof::{Batch, C, Infer, LayerNorm, Model, Seq, Tensor};

fn main() {
    let norm = LayerNorm::<(Seq<C<5>>, Model<C<16>>)>::new(1e-5);
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    norm.forward(&x, &mut Infer);
}
