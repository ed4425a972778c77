use shapeproof::{Batch, C, HeadDim, Heads, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<1>>, Heads<C<7>>, Seq<C<2>>, HeadDim<C<500>>)>::zeros();
    let _y = x.merge_heads();
}
