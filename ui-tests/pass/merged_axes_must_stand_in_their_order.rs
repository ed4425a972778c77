use shapeproof::{Batch, C, Hidden, Key, Query, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<1>>, Query<C<2>>, Key<C<3>>)>::from([[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]);
    let flat = x.transpose(Query, Key).merge_axes(Key, Query, Hidden);
    assert_eq!(flat.to_vec(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
}
