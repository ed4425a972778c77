use shapeproof::{Batch, C, HeadDim, Heads, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Heads<C<8>>, HeadDim<C<64>>)>::zeros();
    let _y = x.merge_axes(Heads, HeadDim, Model);
}
