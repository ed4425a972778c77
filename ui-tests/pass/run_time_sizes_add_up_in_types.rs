use shapeproof::{Batch, C, Model, Plus, Seq, Size, Tensor, dyn_size};

fn grow<B: Size, S: Plus<T>, T: Size, M: Size>(
    past: &Tensor<(Batch<B>, Seq<S>, Model<M>)>,
    new: &Tensor<(Batch<B>, Seq<T>, Model<M>)>,
) -> Tensor<(Batch<B>, Seq<S::Sum>, Model<M>)> {
    past.concat(new, Seq)
}

fn main() {
    let a = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::zeros();
    let b = Tensor::<(Batch<C<2>>, Seq<C<4>>, Model<C<8>>)>::zeros();
    let _seven: Tensor<(Batch<C<2>>, Seq<C<7>>, Model<C<8>>)> = a.concat(&b, Seq);

    dyn_size!(past = 5, new = 2);
    let p = Tensor::zeros_in((Batch(C::<2>), Seq(past), Model(C::<8>)));
    let n = Tensor::zeros_in((Batch(C::<2>), Seq(new), Model(C::<8>)));
    let both = p.concat(&n, Seq);
    assert_eq!(both.concat(&n, Seq).concat(&a, Seq).dims(), [2, 12, 8]);
    assert_eq!(a.concat(&p, Seq).concat(&both, Seq).dims(), [2, 15, 8]);
    assert_eq!(grow(&p, &n).add(&both).dims(), [2, 7, 8]);
}
