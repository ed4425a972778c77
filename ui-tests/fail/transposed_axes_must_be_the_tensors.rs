use shapeproof::{Batch, C, Key, Model, Query, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Query<C<3>>, Key<C<4>>)>::zeros();
    let _y = x.transpose(Query, Model);
    let _width = Model(C::<8>);
}
