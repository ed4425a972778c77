use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<8>>)>::zeros();
    let limit = Tensor::<(Batch<C<2>>,)>::zeros();
    let _less = x.less(&limit);
}
