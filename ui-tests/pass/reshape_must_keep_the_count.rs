use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>)>::zeros();
    let _y: Tensor<(Seq<C<6>>, Model<C<4>>)> = x.reshape();
}
