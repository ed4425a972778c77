//! What a mask hides reaches nothing; what is visible stays in the rows that see it.

use proptest::prelude::*;
use shapeproof::{
    Attention, Batch, C, Causal, EncoderConfig, EncoderLayer, Float, Generator, HeadDim, Heads,
    Infer, Key, MaskFor, MaskParts, Model, MultiHeadAttention, NoMask, Query, ScoreBias, Seq,
    Tensor, bf16, dyn_size, f16,
};

use super::draws;
use crate::masks::{Over, Part, Sizes, attend, bits, narrowed};
use crate::random::Random;

const STRANGE: [f64; 4] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30];

/// Random sizes with at least one of each, grouped heads among them.
fn sizes() -> impl Strategy<Value = Sizes> {
    let heads = vec![(1, 1), (2, 2), (3, 3), (2, 1), (4, 2), (6, 3)];
    let lengths = [1usize..4, 1..6, 1..7, 1..5, 1..5];
    (prop::sample::select(heads), lengths).prop_map(|((heads, kv_heads), lengths)| {
        let [batch, queries, keys, dim, value] = lengths;
        Sizes { batch, heads, kv_heads, queries, keys, dim, value }
    })
}

fn run<E: Float>(sizes: Sizes, inputs: &[Vec<f64>; 3], parts: &[Part]) -> [Vec<f64>; 2] {
    let (out, weights) = attend::<E>(sizes, inputs.each_ref().map(Vec::as_slice), None, parts);
    [out, weights]
}

fn all_bits(results: &[Vec<f64>; 2]) -> [Vec<u64>; 2] {
    results.each_ref().map(|x| bits(x))
}

/// Which rows (batch, head, query) see key `j` of key/value head `g` of sample `b`.
fn sees(sizes: Sizes, parts: &[Part], [b, g, j]: [usize; 3]) -> impl Fn(usize) -> bool {
    move |row| {
        let (i, h) = (row % sizes.queries, row / sizes.queries % sizes.heads);
        let at = [row / sizes.queries / sizes.heads, h, i, j];
        at[0] == b
            && h / (sizes.heads / sizes.kv_heads) == g
            && parts.iter().all(|part| part.shows(sizes, at))
    }
}

fn hidden_keys_reach_nothing<E: Float>(sizes: Sizes, seed: u64) {
    let mut random = Random::new(seed);
    let mut parts = random.parts(sizes);
    parts.truncate(2);
    parts.push(random.keep(sizes, [true, false, false, true]));
    let inputs = random.inputs(sizes);
    let want = all_bits(&run::<E>(sizes, &inputs, &parts));
    for strange in STRANGE {
        let mut inputs = inputs.clone();
        for b in 0..sizes.batch {
            for (g, j) in (0..sizes.kv_heads).flat_map(|g| (0..sizes.keys).map(move |j| (g, j))) {
                let rows = sizes.batch * sizes.heads * sizes.queries;
                if (0..rows).any(sees(sizes, &parts, [b, g, j])) {
                    continue;
                }
                let place = (b * sizes.kv_heads + g) * sizes.keys + j;
                inputs[1][place * sizes.dim..][..sizes.dim].fill(strange);
                inputs[2][place * sizes.value..][..sizes.value].fill(strange);
            }
        }
        assert_eq!(all_bits(&run::<E>(sizes, &inputs, &parts)), want, "{strange}");
    }
}

/// NaN in one key, one value, one query or one bias: rows that do not see it keep
/// their bits, the others show it.
fn a_visible_nan_stays_in_its_rows<E: Float>(sizes: Sizes, seed: u64) {
    let mut random = Random::new(seed);
    let parts = random.parts(sizes);
    let inputs = random.inputs(sizes);
    let clean = run::<E>(sizes, &inputs, &parts);
    let row_of = |results: &[Vec<f64>; 2], row: usize| {
        let [out, weights] = results;
        [
            out[row * sizes.value..][..sizes.value].to_vec(),
            weights[row * sizes.keys..][..sizes.keys].to_vec(),
        ]
    };
    let rows = sizes.batch * sizes.heads * sizes.queries;
    let sees_any = |row: usize| row_of(&clean, row)[1].iter().any(|weight| *weight > 0.0);

    let at = [random.below(sizes.batch), random.below(sizes.kv_heads), random.below(sizes.keys)];
    let place = (at[0] * sizes.kv_heads + at[1]) * sizes.keys + at[2];
    let mut spoiled = inputs.clone();
    spoiled[1][place * sizes.dim + random.below(sizes.dim)] = f64::NAN;
    let results = run::<E>(sizes, &spoiled, &parts);
    for row in 0..rows {
        let [out, weights] = row_of(&results, row);
        if sees(sizes, &parts, at)(row) {
            assert!(out.iter().all(|x| x.is_nan()) && weights[at[2]].is_nan(), "key, row {row}");
        } else {
            assert_eq!(all_bits(&[out, weights]), all_bits(&row_of(&clean, row)), "key, row {row}");
        }
    }

    let mut spoiled = inputs.clone();
    let column = random.below(sizes.value);
    spoiled[2][place * sizes.value + column] = f64::NAN;
    let results = run::<E>(sizes, &spoiled, &parts);
    for row in 0..rows {
        let ([mut out, weights], [mut want, old]) = (row_of(&results, row), row_of(&clean, row));
        if sees(sizes, &parts, at)(row) {
            assert!(out[column].is_nan(), "value, row {row}");
            (out[column], want[column]) = (0.0, 0.0);
        }
        assert_eq!(all_bits(&[out, weights]), all_bits(&[want, old]), "value, row {row}");
    }

    let mut spoiled = inputs;
    let query = random.below(rows);
    spoiled[0][query * sizes.dim + random.below(sizes.dim)] = f64::NAN;
    let results = run::<E>(sizes, &spoiled, &parts);
    for row in 0..rows {
        let [out, weights] = row_of(&results, row);
        if row == query && sees_any(row) {
            assert!(out.iter().all(|x| x.is_nan()), "query, row {row}");
            // What it does not see weighs 0 even so.
            let hidden = row_of(&clean, row)[1]
                .iter()
                .zip(weights)
                .all(|(old, new)| *old > 0.0 || new == 0.0);
            assert!(hidden, "query, row {row}");
        } else {
            assert_eq!(
                all_bits(&[out, weights]),
                all_bits(&row_of(&clean, row)),
                "query, row {row}"
            );
        }
    }
}

fn a_bias_that_a_mask_hides_reaches_nothing<E: Float>(sizes: Sizes, seed: u64) {
    let mut random = Random::new(seed);
    let inputs = random.inputs(sizes);
    let axes = [true, random.flag(), random.flag(), true];
    let keep = random.keep(sizes, axes);
    let bias = random.bias(sizes, axes);
    let (Part::Keep(flags), Part::Bias(numbers)) = (&keep, &bias) else {
        panic!("a mask and a bias")
    };
    let want = all_bits(&run::<E>(sizes, &inputs, &[keep.clone(), bias.clone()]));
    for strange in STRANGE {
        let each = flags.values.iter().zip(&numbers.values);
        let values = each.map(|(keep, x)| if *keep { *x } else { strange }).collect();
        let bias = Part::Bias(Over { axes, values });
        for parts in [[keep.clone(), bias.clone()], [bias, keep.clone()]] {
            assert_eq!(all_bits(&run::<E>(sizes, &inputs, &parts)), want, "{strange}");
        }
    }
}

fn masks_combine_as_booleans<E: Float>(sizes: Sizes, seed: u64) {
    let mut random = Random::new(seed);
    let inputs = random.inputs(sizes);
    let mut parts: Vec<_> = (0..1 + random.below(3)).map(|_| random.part(sizes)).collect();
    let adds = |part: &&Part| matches!(part, Part::Bias(_) | Part::Distances { .. });
    // Tensors are added before numbers by distance; spelled out, those would be tensors too.
    if parts.iter().filter(adds).count() > 1 {
        parts.retain(|part| !matches!(part, Part::Distances { .. }));
    }
    let want = all_bits(&run::<E>(sizes, &inputs, &parts));
    // Each written out as a tensor over all axes.
    let spelled: Vec<_> = parts.iter().map(|part| part.spelled_out(sizes)).collect();
    assert_eq!(all_bits(&run::<E>(sizes, &inputs, &spelled)), want);
    // All that hide in one tensor: their entries' and. What adds stays as it is.
    let all = crate::masks::indices(sizes).into_iter();
    let values = all.map(|at| parts.iter().all(|part| part.shows(sizes, at))).collect();
    let mut joined = vec![Part::Keep(Over { axes: [true; 4], values })];
    joined.extend(parts.iter().filter(adds).cloned());
    if joined.len() <= 3 {
        assert_eq!(all_bits(&run::<E>(sizes, &inputs, &joined)), want);
    }
    // Saying it twice says no more; order matters only to the sum of two biases.
    let biases = parts.iter().filter(adds).count();
    if biases < 2 {
        let reversed: Vec<_> = parts.iter().rev().cloned().collect();
        assert_eq!(all_bits(&run::<E>(sizes, &inputs, &reversed)), want);
    }
}

fn masked_softmax_sees_no_hidden_score<E: Float>([b, l, s]: [usize; 3], seed: u64) {
    let mut random = Random::new(seed);
    dyn_size!(b = b, l = l, s = s);
    let shape = (Batch(b), Query(l), Key(s));
    let x = Tensor::from_fn_in(shape, |_| E::from_f64(random.value()));
    let keep = Tensor::from_fn_in(shape, |_| random.flag());
    let found = |x: &Tensor<(Batch<_>, Query<_>, Key<_>), E>| {
        let (weights, logarithms) =
            (x.masked_softmax(Key, &keep), x.masked_log_softmax(Key, &keep));
        for (weight, logarithm) in weights.to_vec().iter().zip(logarithms.to_vec()) {
            assert_eq!(weight.to_f64() == 0.0, logarithm.to_f64() == f64::NEG_INFINITY);
        }
        [bits(&weights.to_vec()), bits(&logarithms.to_vec())]
    };
    let want = found(&x);
    for strange in STRANGE.into_iter().chain([0.0]) {
        let other = Tensor::scalar(E::from_f64(strange));
        assert_eq!(found(&x.where_or(&keep, &other)), want);
    }
    let hidden = x.where_or(&keep, &Tensor::scalar(E::from_f64(f64::NEG_INFINITY)));
    assert_eq!(
        [bits(&hidden.softmax(Key).to_vec()), bits(&hidden.log_softmax(Key).to_vec())],
        want
    );
}

/// A padded position may hold anything: the positions that are not padding do not see it.
fn padding_reaches_no_other_position<E: Float>([batch, length]: [usize; 2], seed: u64) {
    let mut random = Random::new(seed);
    let generator = &mut Generator::seeded(seed);
    let attention =
        MultiHeadAttention::<C<6>, C<3>, C<6>, C<6>, shapeproof::Bias, E>::xavier(generator);
    type Layer<E> = EncoderLayer<C<6>, C<2>, C<5>, shapeproof::Bias, E>;
    let layer = Layer::<E>::xavier(EncoderConfig::new(1e-5), generator);
    dyn_size!(b = batch, l = length);
    let shape = (Batch(b), Seq(l), Model(C::<6>));
    let x = Tensor::try_from_vec(shape, narrowed::<E>(&random.values(batch * length * 6))).unwrap();
    let keep = Tensor::from_fn_in((Batch(b), Key(l)), |_| random.flag());
    let at_positions = keep.rename(Key, Seq);
    let found = |x: &Tensor<(Batch<_>, Seq<_>, Model<C<6>>), E>| {
        let zero = Tensor::scalar(E::from_f64(0.0));
        let outputs = [
            attention.forward(x, &keep & Causal, &mut Infer),
            attention.cross(x, x, x, &keep, &mut Infer),
            layer.forward(x, &keep, &mut Infer),
        ];
        outputs.map(|y| bits(&y.where_or(&at_positions, &zero).to_vec()))
    };
    let want = found(&x);
    for strange in STRANGE {
        let spoiled = x.where_or(&at_positions, &Tensor::scalar(E::from_f64(strange)));
        assert_eq!(found(&spoiled), want, "{strange}");
    }
}

macro_rules! for_all_elements {
    ($($name:ident => $check:ident($arg:ident in $strategy:expr);)+) => {
        proptest! {
            #![proptest_config(draws(48))]
            $(
                #[test]
                fn $name($arg in $strategy, seed: u64) {
                    $check::<f32>($arg, seed);
                    $check::<f64>($arg, seed);
                    $check::<f16>($arg, seed);
                    $check::<bf16>($arg, seed);
                }
            )+
        }
    };
}
for_all_elements! {
    nan_and_infinity_in_hidden_keys_and_values_reach_nothing => hidden_keys_reach_nothing(sizes in sizes());
    visible_nan_stays_in_the_rows_that_see_it => a_visible_nan_stays_in_its_rows(sizes in sizes());
    nan_in_a_hidden_bias_reaches_nothing => a_bias_that_a_mask_hides_reaches_nothing(sizes in sizes());
    combined_masks_are_their_entries_and => masks_combine_as_booleans(sizes in sizes());
    nan_in_a_hidden_score_reaches_no_weight => masked_softmax_sees_no_hidden_score(dims in [0usize..4, 0..5, 0..9]);
    nan_in_padding_reaches_no_other_position => padding_reaches_no_other_position(dims in [1usize..4, 1..6]);
}

type OneQuery = (Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<1>>);
type Keys<const K: usize> = (Batch<C<1>>, Heads<C<1>>, Key<C<K>>, HeadDim<C<1>>);

#[test]
fn a_key_that_one_bias_hides_stays_hidden_whatever_another_adds() {
    let q = Tensor::<OneQuery>::zeros();
    let v = Tensor::<Keys<3>>::from([[[[2.0], [4.0], [100.0]]]]);
    let hide = ScoreBias(Tensor::<(Key<C<3>>,)>::from([0.0, 0.0, f32::NEG_INFINITY]));
    for strange in [f32::NAN, f32::INFINITY, f32::MAX, f32::NEG_INFINITY] {
        let add = ScoreBias(Tensor::<(Key<C<3>>,)>::from([0.0, 0.0, strange]));
        for (y, weights) in [
            Attention::new().apply_with_weights(&q, &v, &v, &hide & &add),
            Attention::new().apply_with_weights(&q, &v, &v, &add & &hide),
        ] {
            assert_eq!((y.to_vec(), weights.to_vec()), (vec![3.0], vec![0.5, 0.5, 0.0]));
        }
    }
}

/// A key of weight exactly 0, by a score of −∞ or one far below the others, in the first block of
/// keys or in a later one.
#[test]
fn a_value_of_weight_0_reaches_nothing_without_a_mask_too() {
    let q = Tensor::<OneQuery>::ones();
    for far in [f32::NEG_INFINITY, -1e30] {
        for at in [0, 7, 199] {
            let score = |i: usize| if i == at { far } else { 0.0 };
            let k = Tensor::<Keys<200>>::from_fn(|index| score(index[2]));
            for strange in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let v = Tensor::<Keys<200>>::from_fn(
                    |index| if index[2] == at { strange } else { 3.0 },
                );
                let y = Attention::new().apply(&q, &k, &v, NoMask).value_of_one();
                let (z, _) = Attention::new().apply_with_weights(&q, &k, &v, NoMask);
                assert!((y - 3.0).abs() < 1e-5, "{far} at {at}: {y}");
                assert!((z.value_of_one() - 3.0).abs() < 1e-5, "{far} at {at}: {z}");
            }
        }
    }
}

/// The first keys score low, the later ones so high that nothing of the first is left.
#[test]
fn values_whose_weight_falls_to_0_later_reach_nothing() {
    let q = Tensor::<OneQuery>::ones();
    let k = Tensor::<Keys<200>>::from_fn(|index| if index[2] < 150 { 0.0 } else { 1e4 });
    let v = Tensor::<Keys<200>>::from_fn(|index| if index[2] < 90 { f32::INFINITY } else { 3.0 });
    let y = Attention::new().apply(&q, &k, &v, NoMask).value_of_one();
    assert!((y - 3.0).abs() < 1e-5, "{y}");
}

trait One {
    fn value_of_one(&self) -> f32;
}
impl One for Tensor<OneQuery> {
    fn value_of_one(&self) -> f32 {
        self.try_at(&[0, 0, 0, 0]).unwrap()
    }
}

/// Says of any scores what it says of those with two keys.
struct Impostor(Tensor<(Key<C<2>>,), bool>);

impl<S> MaskFor<S> for Impostor {
    fn add_to(&self, parts: &mut MaskParts<f32>) {
        type Scores = (Batch<C<1>>, Heads<C<1>>, Query<C<1>>, Key<C<2>>);
        MaskFor::<Scores>::add_to(&self.0, parts);
    }
}

#[test]
#[should_panic(expected = "a mask of sizes [2] for scores of sizes [1, 1, 1, 200]")]
fn a_mask_that_is_passed_off_for_other_sizes_is_noticed() {
    let v = Tensor::<Keys<200>>::ones();
    let mask = Impostor(Tensor::from([true, true]));
    Attention::new().apply(&Tensor::<OneQuery>::ones(), &v, &v, mask);
}
