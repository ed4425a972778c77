use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<1>>, Model<C<9>>)>::zeros();
    let [_q, _k, _v] = x.chunk(Model, C::<3>);
}
