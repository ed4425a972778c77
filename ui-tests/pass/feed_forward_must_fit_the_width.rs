use shapeproof::{Activation, Batch, C, FeedForward, Infer, Model, Seq, Tensor};

fn main() {
    let block = FeedForward::<C<8>, C<32>>::zeros(Activation::Relu);
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::zeros();
    block.forward(&x, &mut Infer);
}
