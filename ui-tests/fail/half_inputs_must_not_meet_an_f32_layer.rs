use shapeproof::{Batch, C, Hidden, Infer, Linear, Model, Tensor, bf16};

fn main() {
    let layer = Linear::<Model<C<8>>, Hidden<C<4>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>), bf16>::zeros();
    let _y = layer.forward(&x, &mut Infer);
}
