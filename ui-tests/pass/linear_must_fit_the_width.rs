use shapeproof::{Batch, C, Hidden, Infer, Linear, Model, Seq, Tensor};

fn main() {
    let up = Linear::<Model<C<384>>, Hidden<C<1536>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<384>>)>::zeros();
    up.forward(&x, &mut Infer);
}
