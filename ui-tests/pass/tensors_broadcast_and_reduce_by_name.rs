use shapeproof::{
    Batch, BroadcastsTo, C, HasAxis, Heads, Key, Marker, Model, Query, Seq, Shape, Size, Static,
    Tensor, axis, dyn_size,
};

axis!(Speaker);

fn pool<B: Size, S: Size, M: Static>(
    x: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
    bias: &Tensor<(Model<M>,)>,
    gain: &Tensor<(Batch<B>, Model<M>)>,
) -> Tensor<(Batch<B>, Model<M>)> {
    x.add(bias).mul(gain).mean(Seq)
}

/// Generic over the whole shape.
fn mean<S: HasAxis<Model<M>, I>, M: Size, I: Marker>(x: &Tensor<S>) -> Tensor<S::Without> {
    x.mean(Model)
}

fn scale<S: Shape, M: Size, How: Marker>(x: &Tensor<S>, by: &Tensor<(Model<M>,)>) -> Tensor<S>
where
    (Model<M>,): BroadcastsTo<S, How>,
{
    x.mul(by)
}

fn main() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::ones();
    let bias = Tensor::<(Model<C<8>>,)>::ones();
    assert_eq!(pool(&x, &bias, &Tensor::full(3.0)), Tensor::full(6.0));
    assert_eq!(mean(&x).shape(), (Batch(C::<2>), Seq(C::<3>)));
    assert_eq!(scale(&x, &bias), x);
    assert_eq!(x.rename(Seq, Speaker).shape(), (Batch(C::<2>), Speaker(C::<3>), Model(C::<8>)));

    let scores = Tensor::<(Batch<C<2>>, Heads<C<3>>, Query<C<8>>, Key<C<8>>)>::zeros();
    assert_eq!(scores.softmax(Key).sum(Key).mean(Heads).mean(Query).mean(Batch).value(), 1.0);

    type Six = (Batch<C<2>>, Heads<C<3>>, Query<C<4>>, Key<C<4>>, Speaker<C<2>>, Model<C<2>>);
    let part = Tensor::<(Heads<C<3>>, Key<C<4>>, Model<C<2>>)>::ones();
    let six = Tensor::<Six>::zeros().add(&part).mean(Speaker);
    assert_eq!(six.try_argmax(Model).unwrap().dims(), [2, 3, 4, 4]);

    dyn_size!(n = 4);
    let x = Tensor::zeros_in((Batch(n), Seq(n), Model(C::<8>)));
    assert_eq!(x.add(&bias).mean(Seq).shape(), (Batch(n), Model(C::<8>)));
}
