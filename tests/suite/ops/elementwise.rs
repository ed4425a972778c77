//! Arithmetic, comparisons and functions of one element.

use shapeproof::{Batch, C, Heads, Key, Model, Query, Seq, Tensor, dyn_size};

use crate::fixtures::assert_close;

type Pair = Tensor<(Batch<C<2>>, Key<C<3>>)>;

fn pair() -> Pair {
    Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
}

#[test]
fn the_right_side_repeats_over_the_axes_it_lacks() {
    let x = pair();
    let by_key = Tensor::<(Key<C<3>>,)>::from([10.0, 20.0, 30.0]);
    let by_batch = Tensor::<(Batch<C<2>>,)>::from([1.0, 2.0]);
    assert_eq!(x.add(&by_key).to_vec(), [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
    assert_eq!(x.mul(&by_batch).to_vec(), [1.0, 2.0, 3.0, 8.0, 10.0, 12.0]);
    assert_eq!(x.sub(&Tensor::scalar(1.0)).to_vec(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(x.div(&x).to_vec(), [1.0; 6]);
    assert_eq!(x.pow(&by_batch).to_vec(), [1.0, 2.0, 3.0, 16.0, 25.0, 36.0]);
}

#[test]
fn axes_of_equal_size_are_told_apart_by_name() {
    type Square = Tensor<(Query<C<2>>, Key<C<2>>)>;
    let x = Square::zeros();
    let by_key = Tensor::<(Key<C<2>>,)>::from([1.0, 2.0]);
    let by_query = Tensor::<(Query<C<2>>,)>::from([1.0, 2.0]);
    assert_eq!(x.add(&by_key).to_vec(), [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(x.add(&by_query).to_vec(), [1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn outer_and_inner_axes_may_be_lacking_at_once() {
    dyn_size!(b = 2, h = 2, l = 2, s = 2);
    let x = Tensor::<_, f64>::zeros_in((Batch(b), Heads(h), Query(l), Key(s)));
    let edges = Tensor::from_fn_in((Batch(b), Query(l)), |at| f64::from(u8::from(at[0] == at[1])));
    let y = x.add(&edges);
    assert_eq!(y.to_vec(), [1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1].map(f64::from));
}

#[test]
fn numbers_act_on_every_element() {
    let x = pair();
    assert_eq!(x.add_scalar(1.0).sum_all().value(), 27.0);
    assert_eq!(x.sub_scalar(1.0).sum_all().value(), 15.0);
    assert_eq!(x.mul_scalar(2.0).sum_all().value(), 42.0);
    assert_eq!(x.div_scalar(2.0).sum_all().value(), 10.5);
    assert_eq!(x.pow_scalar(2.0).sum_all().value(), 91.0);
}

#[test]
fn functions_have_their_values_at_the_edges() {
    let x = Tensor::<(Key<C<5>>,), f64>::from([0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY]);
    let nan = f64::NAN;
    let is = |y: Tensor<_, f64>, want: [f64; 5]| {
        let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
        assert!(y.to_vec().iter().zip(&want).all(same), "{y} for {want:?}");
    };
    let e = 1f64.exp();
    let exp = x.exp().to_vec();
    assert_close("exp", &exp, &[1.0, e, (-1f64).exp(), f64::INFINITY, 0.0], 4.5e-16, 0.0);
    is(x.ln(), [f64::NEG_INFINITY, 0.0, nan, f64::INFINITY, nan]);
    is(x.sqrt(), [0.0, 1.0, nan, f64::INFINITY, nan]);
    is(x.abs(), [0.0, 1.0, 1.0, f64::INFINITY, f64::INFINITY]);
    is(x.neg(), [0.0, -1.0, 1.0, f64::NEG_INFINITY, f64::INFINITY]);
    is(x.tanh(), [0.0, 1f64.tanh(), -1f64.tanh(), 1.0, -1.0]);
    is(x.relu(), [0.0, 1.0, 0.0, f64::INFINITY, 0.0]);
    let sigmoid = x.sigmoid().to_vec();
    assert_close("σ", &sigmoid, &[0.5, e / (e + 1.0), 1.0 / (e + 1.0), 1.0, 0.0], 1e-15, 0.0);
    is(x.clamp(-0.5, 0.5), [0.0, 0.5, -0.5, 0.5, -0.5]);
}

#[test]
fn activations_of_huge_inputs_are_the_input_or_zero() {
    for largest in [50.0f32, 1e4, 1e20, f32::MAX] {
        let x = Tensor::<(Key<C<2>>,)>::from([largest, -largest]);
        for y in [x.gelu(), x.gelu_tanh(), x.silu()] {
            assert_eq!(y.to_vec()[0], largest);
            assert!(y.to_vec()[1].abs() < 1e-6, "{y}");
        }
        assert_eq!(x.sigmoid().to_vec()[0], 1.0);
        assert!(x.sigmoid().to_vec()[1] < 1e-6);
    }
}

#[test]
fn nan_stays_nan() {
    let x = Tensor::<(Key<C<2>>,)>::from([f32::NAN, 1.0]);
    let first_is_nan = |y: Tensor<(Key<C<2>>,)>| y.to_vec()[0].is_nan() && !y.to_vec()[1].is_nan();
    assert!(first_is_nan(x.clamp(0.0, 2.0)));
    assert!(first_is_nan(x.relu()));
    assert!(first_is_nan(x.gelu()) && first_is_nan(x.gelu_tanh()) && first_is_nan(x.silu()));
    let one = Tensor::<(Key<C<2>>,)>::ones();
    assert!(first_is_nan(x.maximum(&one)) && first_is_nan(one.maximum(&x)));
    assert!(first_is_nan(x.minimum(&one)) && first_is_nan(one.minimum(&x)));
    assert!(x.max(Key).value().is_nan() && x.min(Key).value().is_nan());
    assert!(x.sum(Key).value().is_nan() && x.mean(Key).value().is_nan());
}

#[test]
fn comparisons_give_booleans_and_nan_equals_nothing() {
    let x = Tensor::<(Key<C<4>>,)>::from([1.0, 2.0, 3.0, f32::NAN]);
    let two = Tensor::scalar(2.0);
    assert_eq!(x.less(&two).to_vec(), [true, false, false, false]);
    assert_eq!(x.less_equal(&two).to_vec(), [true, true, false, false]);
    assert_eq!(x.equal(&two).to_vec(), [false, true, false, false]);
    assert_eq!(x.greater_equal(&two).to_vec(), [false, true, true, false]);
    assert_eq!(x.greater(&two).to_vec(), [false, false, true, false]);
    assert_eq!(x.equal(&x).to_vec(), [true, true, true, false]);
    assert_ne!(x, x.clone());
    let tokens = Tensor::<(Key<C<3>>,), u32>::from([5, 0, 7]);
    assert_eq!(tokens.equal(&Tensor::scalar(0)).to_vec(), [false, true, false]);
}

#[test]
fn booleans_combine_by_name() {
    let x = Tensor::<(Query<C<2>>, Key<C<2>>), bool>::from([[true, true], [false, true]]);
    let by_key = Tensor::<(Key<C<2>>,), bool>::from([true, false]);
    assert_eq!(x.and(&by_key).to_vec(), [true, false, false, false]);
    assert_eq!(x.or(&by_key).to_vec(), [true, true, true, true]);
    assert_eq!(x.not().to_vec(), [false, false, true, false]);
}

#[test]
fn where_takes_from_either_side() {
    let x = pair();
    let keep = Tensor::<(Batch<C<2>>,), bool>::from([true, false]);
    let other = Tensor::<(Key<C<3>>,)>::from([-1.0, -2.0, -3.0]);
    assert_eq!(x.where_or(&keep, &other).to_vec(), [1.0, 2.0, 3.0, -1.0, -2.0, -3.0]);
    // What is not taken is not looked at.
    let nan = Tensor::scalar(f32::NAN);
    assert_eq!(x.where_or(&Tensor::<(), bool>::full(true), &nan), x);
    let tokens = Tensor::<(Key<C<2>>,), u8>::from([1, 2]);
    let first = Tensor::<(Key<C<2>>,), bool>::from([true, false]);
    assert_eq!(tokens.where_or(&first, &Tensor::scalar(9)).to_vec(), [1, 9]);
}

#[test]
fn closeness_is_absolute_plus_relative_and_names_the_first_that_is_off() {
    let x = pair();
    let near = x.mul_scalar(1.001);
    assert!(x.all_close(&near, 0.01, 0.0) && x.all_close(&near, 0.0, 0.01));
    assert!(!x.all_close(&near, 1e-4, 1e-4));
    let mut values = x.to_vec();
    (values[4], values[5]) = (7.0, 6.5);
    let off = Tensor::try_from_vec(x.shape(), values).unwrap();
    let error = off.try_close(&x, 0.0, 0.25).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 of 6 elements are off, first at [1, 1]: expected 5, found 7; largest difference 2.000e0"
    );
    let infinite = Tensor::<(Model<C<2>>,)>::from([f32::INFINITY, f32::NEG_INFINITY]);
    assert!(infinite.all_close(&infinite, 0.0, 0.0));
    assert!(!infinite.all_close(&infinite.neg(), 1.0, 1.0));
    let nan = Tensor::<(Model<C<1>>,)>::from([f32::NAN]);
    assert!(!nan.all_close(&nan, 1.0, 1.0));
    let error = nan.try_close(&Tensor::zeros(), 1.0, 1.0).unwrap_err();
    assert!(error.to_string().ends_with("expected 0, found NaN; largest difference NaN"));
    let beside = Tensor::from([f32::INFINITY, 1.0]);
    let error = infinite.try_close(&beside, 0.0, 0.0).unwrap_err();
    assert!(error.to_string().ends_with("found -inf; largest difference inf"));
    assert!(!Tensor::<(Model<C<1>>,)>::zeros().all_close(&nan, 1.0, 1.0));
}

#[test]
fn finite_is_never_close_to_infinite() {
    let finite = Tensor::<(Model<C<1>>,)>::from([1.0]);
    let infinite = Tensor::<(Model<C<1>>,)>::from([f32::INFINITY]);
    assert!(!finite.all_close(&infinite, 0.1, 0.1));
    assert!(!infinite.all_close(&finite, 0.1, 0.1));
}

#[test]
fn softmax_hides_minus_infinity_and_masks_by_name() {
    let x = Tensor::<(Batch<C<2>>, Seq<C<2>>), f64>::from([[0.0, f64::NEG_INFINITY]; 2]);
    assert_eq!(x.softmax(Seq).to_vec(), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(x.softmax(Batch).to_vec(), [0.5, 0.0, 0.5, 0.0]);
    assert_eq!(x.log_softmax(Seq).to_vec(), [0.0, f64::NEG_INFINITY, 0.0, f64::NEG_INFINITY]);
    let keep = Tensor::<(Batch<C<2>>,), bool>::from([true, false]);
    assert_eq!(x.masked_softmax(Seq, &keep).to_vec(), [1.0, 0.0, 0.0, 0.0]);
}
