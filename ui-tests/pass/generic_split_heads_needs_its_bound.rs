use shapeproof::{Batch, C, DivisibleBy, Model, Seq, Size, Static, Tensor};

fn heads<B: Size, S: Size, M: DivisibleBy<H>, H: Static>(x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>) {
    let _heads = x.split_heads::<H>();
}
fn main() {
    heads::<_, _, _, C<2>>(&Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<4>>)>::zeros());
}
