use shapeproof::{Batch, C, Model, Seq, Tensor};

fn main() {
    let x = Tensor::<(Batch<C<2>>, Model<C<512>>, Seq<C<5>>)>::zeros();
    let _heads = x.split_heads::<C<8>>();
}
