use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<512>>)>::zeros();
    let _heads = x.split_heads::<C<7>>();
}
