use shapeproof::{Batch, C, Model, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<1>>, Model<C<12>>)>::zeros();
    let [_q, _k, _v] = x.chunk(Model, C::<4>);
}
