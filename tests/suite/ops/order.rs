//! Reductions and orders along an axis.

use shapeproof::{Batch, C, Heads, Key, Model, Order, Seq, Tensor, dyn_size};

use crate::properties::threads::the_same_in_pools;

fn scores() -> Tensor<(Batch<C<2>>, Key<C<4>>)> {
    Tensor::from([[3.0, 1.0, 3.0, -2.0], [0.0, 5.0, 4.0, 5.0]])
}

#[test]
fn the_named_axis_goes_and_the_others_stay() {
    let x = scores();
    let by_batch: Tensor<(Batch<C<2>>,)> = x.sum(Key);
    let by_key: Tensor<(Key<C<4>>,)> = x.sum(Batch);
    assert_eq!((by_batch.to_vec(), by_key.to_vec()), (vec![5.0, 14.0], vec![3.0, 6.0, 7.0, 3.0]));
    assert_eq!(x.mean(Key).to_vec(), [1.25, 3.5]);
    assert_eq!(x.variance(Key).to_vec(), [4.1875, 4.25]);
    assert_eq!(x.max(Key).to_vec(), [3.0, 5.0]);
    assert_eq!(x.min(Key).to_vec(), [-2.0, 0.0]);
    assert_eq!(x.sum(Key).sum(Batch).value(), 19.0);
    assert_eq!(x.sum_all().value(), 19.0);
    assert_eq!(x.mean_all().value(), 2.375);
}

#[test]
fn long_sums_lose_next_to_nothing() {
    dyn_size!(many = 1 << 20);
    let tenths = Tensor::full_in((Key(many),), 0.1f32);
    let sum = f64::from(tenths.sum(Key).value());
    assert!((sum - 104_857.6).abs() < 0.05, "{sum}");
}

/// Each order of adding gives another sum of these.
#[test]
fn a_sum_that_cancels_has_the_same_bits_for_every_number_of_threads() {
    dyn_size!(many = 1 << 20);
    let cycle = Tensor::from_fn_in((Key(many),), |at| [1e8f32, 1.0, -1e8][at[0] % 3]);
    the_same_in_pools("a sum", || cycle.sum(Key).value().to_bits());
    let rows = Tensor::from_fn_in((Key(many), Model(C::<2>)), |at| [1e8f32, 1.0, -1e8][at[0] % 3]);
    the_same_in_pools("sums beside each other", || rows.sum(Key).map(f32::to_bits).to_vec());
}

#[test]
fn argmax_is_the_first_of_equals_and_nan_wins() {
    assert_eq!(scores().try_argmax(Key).unwrap().to_vec(), [0, 1]);
    assert_eq!(scores().try_argmax(Batch).unwrap().to_vec(), [0, 1, 1, 1]);
    let x = Tensor::<(Key<C<3>>,)>::from([1.0, f32::NAN, 9.0]);
    assert_eq!(x.try_argmax(Key).unwrap().value(), 1);
    let tokens = Tensor::<(Key<C<3>>,), i64>::from([-5, -1, -3]);
    assert_eq!(tokens.try_argmax(Key).unwrap().value(), 1);
    let error = Tensor::<(Batch<C<2>>, Key<C<0>>)>::zeros().try_argmax(Key).unwrap_err();
    assert!(error.is_index());
    assert_eq!(error.to_string(), "the empty axis Key has no largest element");
}

#[test]
fn sorting_keeps_the_order_of_equals_and_says_where_each_stood() {
    let (sorted, places) = scores().sort(Key, Order::Descending);
    assert_eq!(sorted.to_vec(), [3.0, 3.0, 1.0, -2.0, 5.0, 5.0, 4.0, 0.0]);
    assert_eq!(places.to_vec(), [0, 2, 1, 3, 1, 3, 2, 0]);
    let (sorted, places) = scores().sort(Key, Order::Ascending);
    assert_eq!(sorted.to_vec(), [-2.0, 1.0, 3.0, 3.0, 0.0, 4.0, 5.0, 5.0]);
    assert_eq!(places.to_vec(), [3, 1, 0, 2, 0, 2, 1, 3]);
    let (sorted, _) = scores().sort(Batch, Order::Ascending);
    assert_eq!(sorted.to_vec(), [0.0, 1.0, 3.0, -2.0, 3.0, 5.0, 4.0, 5.0]);
}

#[test]
fn nan_sorts_last_in_either_order() {
    let x = Tensor::<(Key<C<3>>,)>::from([f32::NAN, 2.0, f32::INFINITY]);
    assert_eq!(x.sort(Key, Order::Ascending).1.to_vec(), [1, 2, 0]);
    assert_eq!(x.sort(Key, Order::Descending).1.to_vec(), [2, 1, 0]);
    assert_eq!(x.try_top_k(Key, C::<1>).unwrap().1.to_vec(), [2]);
}

#[test]
fn the_largest_k_come_largest_first() {
    let (values, places) = scores().try_top_k(Key, C::<2>).unwrap();
    assert_eq!(values.dims(), [2, 2]);
    assert_eq!(values.to_vec(), [3.0, 3.0, 5.0, 5.0]);
    assert_eq!(places.to_vec(), [0, 2, 1, 3]);
    dyn_size!(k = 4);
    let (all, _) = scores().try_top_k(Key, k).unwrap();
    assert_eq!(all.to_vec(), scores().sort(Key, Order::Descending).0.to_vec());
    dyn_size!(too_many = 5);
    let error = scores().try_top_k(Key, too_many).unwrap_err();
    assert!(error.is_index());
    assert_eq!(error.to_string(), "axis Key has 4 entries, no 5 largest");
}

#[test]
fn running_sums_go_along_the_named_axis() {
    // Time and heads of equal size: the axis is told by its name alone.
    let x = Tensor::<(Seq<C<2>>, Heads<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(x.cumsum(Seq).to_vec(), [1.0, 2.0, 4.0, 6.0]);
    assert_eq!(x.cumsum(Heads).to_vec(), [1.0, 3.0, 3.0, 7.0]);
    assert_eq!(x.transpose(Seq, Heads).cumsum(Seq).to_vec(), [1.0, 4.0, 2.0, 6.0]);
}

#[test]
fn reductions_of_six_axes_take_each_of_them() {
    use shapeproof::{Hidden, Query};
    type Six = (Batch<C<2>>, Heads<C<1>>, Query<C<2>>, Key<C<3>>, Hidden<C<1>>, Model<C<2>>);
    let x = Tensor::<Six, f64>::ones();
    assert_eq!(x.sum(Batch).dims(), [1, 2, 3, 1, 2]);
    assert_eq!(x.sum(Key).to_vec(), [3.0; 8]);
    assert_eq!(x.sum(Model).sum(Hidden).sum(Key).sum(Query).sum(Heads).sum(Batch).value(), 24.0);
}
