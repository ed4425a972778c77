use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>), f32>::zeros();
    let y = Tensor::<(Batch<C<2>>, Model<C<8>>), f32>::zeros();
    let _z = x.add(&y);
}
