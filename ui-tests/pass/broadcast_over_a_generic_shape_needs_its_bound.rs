use shapeproof::{Batch, BroadcastsTo, C, Marker, Model, Shape, Size, Tensor};

fn scale<S: Shape, M: Size, How: Marker>(x: &Tensor<S>, by: &Tensor<(Model<M>,)>) -> Tensor<S>
where
    (Model<M>,): BroadcastsTo<S, How>,
{
    x.mul(by)
}
fn main() {
    scale(&Tensor::<(Batch<C<2>>, Model<C<3>>)>::zeros(), &Tensor::<(Model<C<3>>,)>::zeros());
}
