use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<1>>, Seq<C<1>>, Model<C<6144>>)>::zeros();
    let _heads = x.split_heads::<C<3000>>();
}
