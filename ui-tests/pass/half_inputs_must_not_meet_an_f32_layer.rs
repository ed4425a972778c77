use shapeproof::{Batch, Bias, C, Hidden, Infer, Linear, Model, Tensor, bf16, copy_parameters};

fn main() {
    let layer = Linear::<Model<C<8>>, Hidden<C<4>>>::zeros();
    let mut half = Linear::<Model<C<8>>, Hidden<C<4>>, Bias, bf16>::zeros();
    copy_parameters(&layer, &mut half).unwrap();
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>), bf16>::zeros();
    let _y = half.forward(&x, &mut Infer);
}
