use shapeproof::{Batch, C, Hidden, Linear, Model, Tensor};

fn main() {
    let layer = Linear::<Model<C<8>>, Hidden<C<16>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>)>::zeros();
    layer.forward(&x, &mut true);
}
