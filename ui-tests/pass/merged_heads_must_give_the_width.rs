use shapeproof::{Batch, C, HeadDim, Heads, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Heads<C<8>>, Seq<C<5>>, HeadDim<C<64>>)>::zeros();
    let _y: Tensor<(Batch<C<2>>, Seq<C<5>>, Model<C<512>>)> = x.merge_heads();
}
