use shapeproof::{Batch, C, Hidden, Infer, Linear, Model, Seq, Tensor};

fn main() {
    let up = Linear::<Model<C<8>>, Hidden<C<8>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    let y = up.forward(&x, &mut Infer);
    up.forward(&x, &mut Infer);
    assert_eq!(y.dims(), [2, 5, 8]);
}
