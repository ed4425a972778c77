use shapeproof::{Batch, C, HeadDim, Heads, Hidden, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<10>>)>::zeros();
    let _y = x.split_axis(Model, Heads(C::<5>), HeadDim);
    let _inner = Hidden(C::<10>);
}
