use shapeproof::{Batch, C, HeadDim, Heads, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Heads<C<8>>, Seq<C<5>>, HeadDim<C<64>>)>::zeros();
    let _y = x.merge_heads();
}
