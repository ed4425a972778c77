use shapeproof::{Batch, C, HeadDim, Heads, Infer, Linear, Model, Seq, Tensor};

fn main() {
    let out = Linear::<Model<C<512>>, Model<C<512>>>::zeros();
    let x = Tensor::<(Batch<C<2>>, Heads<C<8>>, Seq<C<5>>, HeadDim<C<64>>)>::zeros();
    let _y = out.forward(&x.merge_heads(), &mut Infer);
}
