//! What is taken apart and put together again is what it was.

use proptest::prelude::*;
use shapeproof::{
    AnyTensor, Batch, C, DivisibleBy, HeadDim, Heads, Key, Model, Query, Seq, Static, Tensor,
    dispatch, dyn_size, try_stack,
};

use super::{Gap, Scattered, draws};

/// Every element another number.
fn numbered(dims: &[usize]) -> AnyTensor<usize> {
    let count = dims.iter().product();
    AnyTensor::try_from_vec(dims, (0..count).collect()).unwrap()
}

fn split_and_merge<M: DivisibleBy<H>, H: Static>(batch: usize, length: usize) {
    dyn_size!(b = batch, l = length);
    let x = numbered(&[batch, length, M::N]);
    let x = x.try_typed((Batch(b), Seq(l), Model(M::default()))).unwrap();
    for x in [vec![x.clone()], x.scattered(usize::MAX)].concat() {
        let heads = x.split_heads::<H>();
        assert_eq!(heads.merge_heads(), x);
        for heads in heads.scattered(usize::MAX) {
            assert_eq!(heads.merge_heads(), x);
        }
        let again: Tensor<(Batch<_>, Heads<H>, Seq<_>, HeadDim<_>), usize> =
            x.split_axis(Model, Heads(H::default()), HeadDim).permute();
        assert_eq!(again, heads);
    }
}

proptest! {
    #![proptest_config(draws(48))]

    #[test]
    fn split_then_merge_is_the_identity(
        (width, heads) in prop::sample::select(vec![(12usize, 1usize), (12, 2), (12, 3), (12, 6), (12, 12), (8, 4), (10, 5), (7, 7)]),
        [batch, length] in [0usize..5, 0..6],
    ) {
        dispatch!((width, heads) as (M, H) in [
            (12, 1), (12, 2), (12, 3), (12, 6), (12, 12), (8, 4), (10, 5), (7, 7)
        ] => split_and_merge::<M, H>(batch, length)).unwrap();
    }

    #[test]
    fn fold_then_unfold_is_the_identity(dims in [0usize..4, 0..5, 0..6]) {
        dyn_size!(b = dims[0], l = dims[1], s = dims[2]);
        let x = numbered(&dims).try_typed((Batch(b), Query(l), Key(s))).unwrap();
        for x in [vec![x.clone()], x.scattered(usize::MAX)].concat() {
            let first = x.fold(Batch, Query);
            prop_assert_eq!(first.dims(), [dims[0] * dims[1], dims[2]]);
            prop_assert_eq!(&first.unfold(Batch, Query), &x);
            let last = x.fold(Query, Key);
            prop_assert_eq!(&last.unfold(Query, Key), &x);
        }
    }

    #[test]
    fn permuting_there_and_back_is_the_identity(dims in [0usize..4, 0..5, 0..6, 0..3]) {
        dyn_size!(b = dims[0], h = dims[1], l = dims[2], s = dims[3]);
        let shape = (Batch(b), Heads(h), Query(l), Key(s));
        let x = numbered(&dims).try_typed(shape).unwrap();
        let y: Tensor<(Key<_>, Batch<_>, Query<_>, Heads<_>), usize> = x.permute();
        prop_assert_eq!(y.dims(), [dims[3], dims[0], dims[2], dims[1]]);
        let back: Tensor<(Batch<_>, Heads<_>, Query<_>, Key<_>), usize> = y.packed().permute();
        prop_assert_eq!(&back, &x);
        prop_assert_eq!(&x.transpose(Batch, Key).transpose(Batch, Key), &x);
        prop_assert_eq!(&x.rename(Query, Seq).rename(Seq, Query), &x);
        prop_assert_eq!(&x.erase().try_typed(shape).unwrap(), &x);
        prop_assert_eq!(&x.try_reshape(y.shape()).unwrap().try_reshape(shape).unwrap(), &x);
    }

    #[test]
    fn what_is_cut_and_joined_again_is_what_it_was(dims in [0usize..4, 1..7], at in 0usize..7) {
        let at = at % dims[1];
        dyn_size!(b = dims[0], n = dims[1], left = at, right = dims[1] - at);
        let x = numbered(&dims).try_typed((Batch(b), Seq(n))).unwrap();
        let start = x.try_slice(Seq, 0, left).unwrap();
        let end = x.try_slice(Seq, at, right).unwrap();
        prop_assert_eq!(start.concat(&end, Seq).erase(), x.erase());
        let twice = try_stack([&x, &x], Gap).unwrap();
        for i in 0..2 {
            prop_assert_eq!(&twice.try_select(Gap, i).unwrap(), &x);
        }
        let chunks = twice.chunk(Gap, C::<2>);
        prop_assert_eq!(&chunks[0].concat(&chunks[1], Gap), &twice);
    }
}
