use shapeproof::{Batch, C, Infer, Model, RmsNorm, Seq, Tensor};

fn main() {
    let norm = RmsNorm::<(Seq<C<5>>, Model<C<8>>)>::new(1e-6);
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    norm.forward(&x, &mut Infer);
}
