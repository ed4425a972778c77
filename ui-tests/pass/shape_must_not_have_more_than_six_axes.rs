use shapeproof::{Batch, C, HeadDim, Heads, Key, Model, Query, Seq, Tensor};

type One = C<1>;
type Shape = (Batch<One>, Heads<One>, Query<One>, Key<One>, Seq<One>, Model<One>);
fn main() {
    let _x = Tensor::<Shape>::zeros();
    let _width = HeadDim(One::default());
}
