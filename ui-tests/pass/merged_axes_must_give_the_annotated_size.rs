use shapeproof::{Batch, C, HeadDim, Heads, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Heads<C<8>>, HeadDim<C<64>>)>::zeros();
    let _y: Tensor<(Batch<C<2>>, Model<C<512>>)> = x.merge_axes(Heads, HeadDim, Model);
}
