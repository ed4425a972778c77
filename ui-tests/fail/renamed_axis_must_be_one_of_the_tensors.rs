use shapeproof::{Batch, C, Key, Query, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>)>::zeros();
    let _y = x.rename(Key, Query);
    let _key = Key(C::<1>);
}
