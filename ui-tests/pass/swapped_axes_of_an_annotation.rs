use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<5>>, Seq<C<5>>, Model<C<8>>)>::zeros();
    let _y: Tensor<(Batch<C<5>>, Seq<C<5>>, Model<C<8>>)> = x.softmax(Model);
}
