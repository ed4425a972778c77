use shapeproof::{Activation, Batch, C, GatedFeedForward, Infer, Model, Seq, Tensor};

fn main() {
    let block = GatedFeedForward::<C<8>, C<20>>::zeros(Activation::Silu);
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<9>>)>::zeros();
    block.forward(&x, &mut Infer);
}
