use shapeproof::{C, Model, Tensor, bf16};

fn main() {
    let x = Tensor::<(Model<C<8>>,), f32>::zeros();
    let y = Tensor::<(Model<C<8>>,), bf16>::zeros();
    let _z = x.add(&y.to::<f32>());
}
