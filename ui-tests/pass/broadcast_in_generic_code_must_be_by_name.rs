use shapeproof::{Batch, C, Model, Seq, Size, Tensor};

fn shift<B: Size, S: Size, M: Size>(
    x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
    bias: &Tensor<(Model<M>,)>,
) -> Tensor<(Batch<B>, Seq<S>, Model<M>)> {
    x.add(bias)
}
fn main() {
    shift(
        &Tensor::<(Batch<C<2>>, Seq<C<2>>, Model<C<2>>)>::zeros(),
        &Tensor::<(Model<C<2>>,)>::zeros(),
    );
}
