//! Sizes: read from a configuration, known at run time alone, in a user's own code.

use shapeproof::{
    Activation, Attention, Batch, Bias, C, DivisibleBy, FeedForward, Float, Generator, HeadDimOf,
    Heads, Infer, Key, Linear, MaskFor, Model, MultiHeadAttention, NoBias, NoMask, Query, Seq,
    Size, Static, Tensor, dispatch, dyn_size,
};

use crate::fixtures::assert_close;
use crate::masks::{Sizes, narrowed, widened};
use crate::oracle;
use crate::random::Random;

// chelsea0x3b/dfdx#540
#[test]
fn numbers_of_a_configuration_that_fit_nothing_are_an_error_with_all_of_them() {
    fn build<M: DivisibleBy<H>, H: Static>() -> (usize, usize, usize) {
        (M::N, H::N, HeadDimOf::<M, H>::N)
    }
    let build = |width: usize, heads: usize| dispatch!((width, heads) as (M, H) in [(10, 2), (10, 5), (12, 3)] => build::<M, H>());
    assert_eq!(build(10, 2).unwrap(), (10, 2, 5));
    assert_eq!(build(10, 5).unwrap(), (10, 5, 2));
    let error = build(10, 3).unwrap_err();
    assert!(error.is_unlisted() && !error.is_shape());
    assert_eq!(
        error.to_string(),
        "(width, heads) = (10, 3) is not among the compiled sizes [(10, 2), (10, 5), (12, 3)]; to have \
         it, add it to the list of this `dispatch!`"
    );
    for (width, heads) in [(0, 0), (10, 0), (2, 10), (usize::MAX, 2)] {
        assert!(
            build(width, heads).unwrap_err().to_string().contains(&format!("({width}, {heads})"))
        );
    }
}

#[test]
fn dispatch_takes_one_number_too_and_the_first_tuple_that_fits() {
    let name = |n: usize| dispatch!((n) as (N) in [(1), (2)] => N::N * 10);
    assert_eq!(name(2).unwrap(), 20);
    let error = name(3).unwrap_err().to_string();
    assert!(
        error.starts_with("(n) = 3 is not among the compiled sizes [1, 2]; to have it,"),
        "{error}"
    );
}

/// Cross attention by plain loops, with the weights as xavier drew them.
fn by_loops<M, H, KM, VM>(
    layer: &MultiHeadAttention<M, H, KM, VM, Bias, f64>,
    [x, key, value]: [&[f64]; 3],
    [batch, queries, keys]: [usize; 3],
) -> Vec<f64>
where
    M: DivisibleBy<H>,
    H: Static,
    KM: Static,
    VM: Static,
{
    fn projected<I: Static, O: Static>(
        linear: &Linear<Model<I>, Model<O>, Bias, f64>,
        x: &[f64],
    ) -> Vec<f64> {
        let out_by_in = oracle::exchanged(&linear.weight.value().to_vec(), [I::N, O::N, 1]);
        oracle::linear(x, &out_by_in, None, I::N)
    }
    let dim = M::N / H::N;
    let by_head = |rows: Vec<f64>, length| oracle::exchanged(&rows, [length, H::N, dim]);
    let q = by_head(projected(&layer.q, x), queries);
    let k = by_head(projected(&layer.k, key), keys);
    let v = by_head(projected(&layer.v, value), keys);
    let sizes = Sizes::new(batch, H::N, queries, keys, dim);
    let (y, _) = oracle::attention(sizes, [&q, &k, &v], None, &[]);
    projected(&layer.out, &oracle::exchanged(&y, [H::N, queries, dim]))
}

// pytorch/pytorch#27623
#[test]
fn keys_and_values_may_have_widths_of_their_own() {
    let mut generator = Generator::seeded(25);
    let layer = MultiHeadAttention::<C<4>, C<2>, C<6>, C<2>>::xavier(&mut generator);
    let x = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<4>>)>::normal(0.0, 1.0, &mut generator);
    let key = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<6>>)>::normal(0.0, 1.0, &mut generator);
    let value = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<2>>)>::normal(0.0, 1.0, &mut generator);
    let y = layer.cross(&x, &key, &value, NoMask, &mut Infer);
    assert_eq!(y.dims(), [1, 2, 4]);
}

// pytorch/pytorch#27623, its kind
#[test]
fn cross_attention_equals_plain_loops_for_any_widths() {
    fn check<M: DivisibleBy<H>, H: Static, KM: Static, VM: Static>(lengths: [usize; 3]) {
        let [batch, queries, keys] = lengths;
        let mut generator = Generator::seeded(26);
        let layer = MultiHeadAttention::<M, H, KM, VM, Bias, f64>::xavier(&mut generator);
        let mut random = Random::new(27);
        let x = random.values(batch * queries * M::N);
        let key = random.values(batch * keys * KM::N);
        let value = random.values(batch * keys * VM::N);
        let want = by_loops(&layer, [&x, &key, &value], lengths);

        dyn_size!(b = batch, l = queries, s = keys);
        let tensor = |values: &[f64], shape| Tensor::try_from_vec(shape, values.to_vec()).unwrap();
        let y = layer.cross(
            &tensor(&x, (Batch(b), Seq(l), Model(M::default()))),
            &Tensor::try_from_vec((Batch(b), Seq(s), Model(KM::default())), key).unwrap(),
            &Tensor::try_from_vec((Batch(b), Seq(s), Model(VM::default())), value).unwrap(),
            NoMask,
            &mut Infer,
        );
        assert_close(&format!("{lengths:?}"), &y.to_vec(), &want, 1e-12, 1e-12);
    }
    for lengths in [[2, 3, 5], [3, 3, 3], [1, 4, 2], [2, 1, 4], [2, 4, 1], [2, 4, 4]] {
        check::<C<4>, C<2>, C<6>, C<2>>(lengths);
        check::<C<6>, C<1>, C<1>, C<9>>(lengths);
        check::<C<3>, C<3>, C<3>, C<3>>(lengths);
        check::<C<8>, C<4>, C<8>, C<5>>(lengths);
    }
}

// chelsea0x3b/dfdx#308
#[test]
fn one_compiled_model_runs_batches_and_lengths_of_any_size() {
    let mut generator = Generator::seeded(27);
    let layer = MultiHeadAttention::<C<6>, C<2>>::xavier(&mut generator);
    for batch in [5, 2, 1, 0] {
        for length in [7, 3, 1, 0] {
            dyn_size!(b = batch, l = length);
            assert_eq!((b.get(), l.get()), (batch, length));
            let shape = (Batch(b), Seq(l), Model(C::<6>));
            let x = Tensor::normal_in(shape, 0.0, 1.0, &mut generator);
            let y = layer.forward(&x, NoMask, &mut Infer);
            assert_eq!(y.dims(), [batch, length, 6]);
            assert_eq!(y.count(), batch * length * 6);
            assert!(y.to_vec().iter().all(|x| x.is_finite()));
        }
    }
}

#[test]
fn a_static_and_a_run_time_size_give_the_same_bits() {
    let mut generator = Generator::seeded(28);
    let layer = MultiHeadAttention::<C<6>, C<3>, C<6>, C<6>, NoBias>::xavier(&mut generator);
    let fixed = Tensor::<(Batch<C<5>>, Seq<C<7>>, Model<C<6>>)>::normal(0.0, 1.0, &mut generator);
    dyn_size!(batch = 5, length = 7);
    let read = fixed.try_with_sizes((Batch(batch), Seq(length), Model(C::<6>))).unwrap();
    let one = layer.forward(&fixed, NoMask, &mut Infer);
    let other = layer.forward(&read, NoMask, &mut Infer);
    assert_eq!(one.to_vec(), other.to_vec());
    assert!(read.try_with_sizes((Batch(batch), Seq(C::<6>), Model(C::<6>))).is_err());
}

// chelsea0x3b/dfdx#539: what the mistaken program was meant to be builds on stable and runs
#[test]
fn attention_and_feed_forward_of_one_width_fit_together() {
    let mut generator = Generator::seeded(29);
    let attention = MultiHeadAttention::<C<16>, C<4>>::xavier(&mut generator);
    let feed = FeedForward::<C<16>, C<8>>::xavier(Activation::Relu, &mut generator);
    let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<16>>)>::normal(0.0, 1.0, &mut generator);
    let y = feed.forward(&attention.forward(&x, NoMask, &mut Infer), &mut Infer);
    assert_eq!(y.shape(), x.shape());
}

/// A user's own attention: three short bounds, for any sizes.
fn attend<M: DivisibleBy<H>, H: Static, S: Size>(
    x: &Tensor<(Batch<C<2>>, Seq<S>, Model<M>)>,
    mask: impl MaskFor<(Batch<C<2>>, Heads<H>, Query<S>, Key<S>)>,
) -> Tensor<(Batch<C<2>>, Seq<S>, Model<M>)> {
    let heads = x.split_heads::<H>();
    let (q, k) = (heads.rename(Seq, Query), heads.rename(Seq, Key));
    Attention::new().apply(&q, &k, &k, mask).merge_heads().rename(Query, Seq)
}

// dimforge/nalgebra#1533
#[test]
fn a_generic_function_over_width_and_heads_runs_for_static_and_run_time_lengths() {
    fn check<M: DivisibleBy<H>, H: Static>() {
        let mut random = Random::new(30);
        let values = random.values(2 * 3 * M::N);
        let fixed = (Batch(C::<2>), Seq(C::<3>), Model(M::default()));
        let x = Tensor::try_from_vec(fixed, narrowed::<f32>(&values)).unwrap();
        let y = attend::<M, H, _>(&x, NoMask);
        dyn_size!(length = 3);
        let read = x.try_with_sizes((Batch(C::<2>), Seq(length), Model(M::default()))).unwrap();
        assert_eq!(attend::<M, H, _>(&read, NoMask).to_vec(), y.to_vec());

        let sizes = Sizes::new(2, H::N, 3, 3, M::N / H::N);
        let heads = widened(&x.split_heads::<H>().to_vec());
        let (want, _) = oracle::attention(sizes, [&heads, &heads, &heads], None, &[]);
        let got = widened(&y.split_heads::<H>().to_vec());
        let (rtol, atol) = oracle::tolerance::<f32>();
        assert_close(&format!("{} of {}", H::N, M::N), &got, &want, rtol, atol);
    }
    check::<C<16>, C<4>>();
    check::<C<8>, C<2>>();
    check::<C<8>, C<8>>();
    check::<C<5>, C<1>>();
}

#[test]
fn generic_code_may_be_generic_over_the_element_too() {
    fn sums<S: Size, E: Float>(x: &Tensor<(Batch<C<2>>, Seq<S>), E>) -> Vec<f64> {
        widened(&x.sum(Seq).to_vec())
    }
    let x = Tensor::<(Batch<C<2>>, Seq<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!((sums(&x), sums(&x.to::<f64>())), (vec![3.0, 7.0], vec![3.0, 7.0]));
}
