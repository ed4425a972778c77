use super::Softmax::{Logarithms, Weights};
use super::*;
use crate::kernel::layout::Layout;
use crate::kernel::testing::{Block, Rng, bits, in_pools, scattered};

fn row<E>(data: &[E]) -> View<'_, E> {
    View { data, layout: Layout::packed(&[data.len()]) }
}

/// The twin: the definition, in f64.
fn slow(scores: &[f64], keep: &[bool]) -> Vec<f64> {
    let visible = |i: usize| keep[i] && scores[i] != f64::NEG_INFINITY;
    let max = (0..scores.len()).filter(|&i| visible(i)).map(|i| scores[i]).fold(-1e300, f64::max);
    let exp: Vec<f64> =
        (0..scores.len()).map(|i| if visible(i) { (scores[i] - max).exp() } else { 0.0 }).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|x| if sum == 0.0 { 0.0 } else { x / sum }).collect()
}

#[test]
fn softmax_matches_its_definition_for_any_axis_strides_and_threads() {
    let mut rng = Rng::new(6);
    let block = rng.block::<f32>(&[4, 37, 3]);
    let keep: Vec<bool> = (0..37).map(|_| rng.below(3) > 0).collect();
    let keep = View { data: &keep, layout: Layout::packed(&[37]).broadcast(&[4, 37, 3], &[1]) };
    let result = in_pools(|| bits(&softmax(Weights, block.view(), 1, Some(keep))));
    let logs = softmax(Logarithms, block.view(), 1, Some(keep));
    for kind in 0..3 {
        assert_eq!(bits(&softmax(Weights, block.scattered(kind).view(), 1, Some(keep))), result);
    }
    for outer in 0..4 {
        for inner in 0..3 {
            let line: Vec<usize> = (0..37).map(|i| (outer * 37 + i) * 3 + inner).collect();
            let scores: Vec<f64> = line.iter().map(|&i| f64::from(block.data[i])).collect();
            for (&i, expected) in line.iter().zip(slow(&scores, keep.data)) {
                let actual = f64::from_bits(result[i]);
                assert!((actual - expected).abs() <= 3e-7 * expected, "{actual} {expected}");
                assert!((f64::from(logs[i]).exp() - expected).abs() <= 1e-6 * expected);
            }
        }
    }
}

#[test]
fn rows_with_nothing_visible_are_zero() {
    let x = [f32::NEG_INFINITY; 3];
    assert_eq!(softmax(Weights, row(&x), 0, None), [0.0; 3]);
    assert_eq!(softmax(Logarithms, row(&x), 0, None), x);
    let keep = [false; 3];
    assert_eq!(softmax(Weights, row(&[1f32, f32::NAN, 2.0]), 0, Some(row(&keep))), [0.0; 3]);
    assert_eq!(softmax(Logarithms, row(&[1f32, f32::NAN, 2.0]), 0, Some(row(&keep))), x);
    assert_eq!(softmax(Weights, row::<f32>(&[]), 0, None), [0.0; 0]);
}

#[test]
fn hidden_entries_weigh_nothing_whatever_they_hold() {
    let x = [200f32, f32::NAN, 200.0, f32::INFINITY, 0.0];
    let keep = [true, false, true, false, true];
    assert_eq!(softmax(Weights, row(&x), 0, Some(row(&keep))), [0.5, 0.0, 0.5, 0.0, 0.0]);
}

#[test]
fn long_rows_keep_their_digits_on_every_length() {
    let mut rng = Rng::new(13);
    for n in (1..40).chain([50_257]) {
        let x = rng.values::<f32>(n);
        let scores: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let weights = softmax(Weights, row(&x), 0, None);
        for (actual, expected) in weights.iter().zip(slow(&scores, &vec![true; n])) {
            assert!((f64::from(*actual) - expected).abs() <= 4e-7 * expected);
        }
    }
}

#[test]
fn a_visible_nan_stays_in_its_row() {
    let x = [1f32, f32::NAN, f32::NEG_INFINITY, 1.0, 1.0, 1.0];
    let view = View { data: &x, layout: Layout::packed(&[2, 3]) };
    let weights = softmax(Weights, view, 1, None);
    assert!(weights[0].is_nan() && weights[1].is_nan() && weights[2] == 0.0);
    assert!(weights[3..].iter().all(|w| (w - 1.0 / 3.0).abs() < 1e-7));
}

/// Numbers with some NaN and infinities, and rows of −∞ alone.
fn awkward(rng: &mut Rng, rows: usize, n: usize) -> Vec<f32> {
    let mut x = rng.values::<f32>(rows * n);
    for x in &mut x {
        *x = match rng.below(40) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 | 3 => f32::NEG_INFINITY,
            _ => *x * 20.0,
        };
    }
    if n > 0 && rows > 2 {
        x[n..2 * n].fill(f32::NEG_INFINITY);
    }
    x
}

#[test]
fn rows_of_every_length_are_the_same_in_any_layout_and_place_and_on_any_threads() {
    let mut rng = Rng::new(32);
    for n in (0..70).chain([257, 2049, 20_011]) {
        let rows = 3 + rng.below(20);
        let x = awkward(&mut rng, rows, n);
        let block = Block { data: x.clone(), layout: Layout::packed(&[rows, n]) };
        for kind in [Weights, Logarithms] {
            let result = in_pools(|| bits(&softmax(kind, block.view(), 1, None)));
            for scatter in 0..3 {
                let other = block.scattered(scatter);
                assert_eq!(bits(&softmax(kind, other.view(), 1, None)), result, "{n}");
            }
            let in_place = in_pools(|| {
                let mut x = x.clone();
                softmax_in_place(kind, &mut x, n);
                bits(&x)
            });
            assert_eq!(in_place, result, "{n}");
        }
    }
}

#[test]
fn rows_of_every_length_match_the_definition_under_any_mask() {
    let mut rng = Rng::new(33);
    for n in 1..70 {
        let (rows, x) = (5, awkward(&mut rng, 5, n));
        let keep: Vec<bool> = (0..rows * n).map(|_| rng.below(4) > 0).collect();
        let layout = Layout::packed(&[rows, n]);
        let view = View { data: &x, layout };
        let packed = View { data: &keep, layout };
        let weights = softmax(Weights, view, 1, Some(packed));
        let logs = softmax(Logarithms, view, 1, Some(packed));
        let (data, layout) = scattered(&keep, &[rows, n], 0);
        let strided = View { data: &data, layout };
        assert_eq!(bits(&softmax(Weights, view, 1, Some(strided))), bits(&weights));
        for row in 0..rows {
            let line = row * n..row * n + n;
            let scores: Vec<f64> = x[line.clone()].iter().map(|&x| f64::from(x)).collect();
            let keep = &keep[line.clone()];
            let visible = |i: usize| keep[i] && scores[i] != f64::NEG_INFINITY;
            // A visible NaN or ∞ makes the row's sum NaN.
            let broken = (0..n).any(|i| visible(i) && !scores[i].is_finite());
            for (i, expected) in slow(&scores, keep).into_iter().enumerate() {
                let (weight, log) = (weights[line.start + i], logs[line.start + i]);
                match visible(i) {
                    false => {
                        assert!(weight == 0.0 && log == f32::NEG_INFINITY, "{weight} {log}")
                    }
                    true if broken => assert!(weight.is_nan() || weight == 0.0),
                    true => {
                        let error = (f64::from(weight) - expected).abs();
                        // A score less the maximum is rounded before its exponential is taken.
                        let bound = (4e-7 - 6e-8 * expected.ln()) * expected + 2e-38;
                        assert!(error <= bound, "{n}: {weight} {expected}");
                        let error = (f64::from(log) - expected.ln()).abs();
                        assert!(error <= 1e-5 || expected < 1e-37, "{n}: {log} {expected}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_instruction_set_agrees_on_every_length() {
    let mut rng = Rng::new(14);
    for isa in Isa::all() {
        for n in (1..50).chain([1023, 1024, 1100]) {
            let mut x = rng.values::<f32>(n);
            x[n / 2] = f32::NEG_INFINITY;
            let scores: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let expected = slow(&scores, &vec![true; n]);
            let mut weights = x.clone();
            f32::vectorized(isa, Rows::in_place(Softmax::Weights, &mut weights, n));
            f32::vectorized(isa, Rows::in_place(Softmax::Logarithms, &mut x, n));
            for ((weight, log), expected) in weights.iter().zip(&x).zip(expected) {
                let off = (f64::from(*weight) - expected).abs();
                assert!(off <= 4e-7 * expected, "{isa:?} {n}");
                assert!((f64::from(*log).exp() - expected).abs() <= 2e-6 * expected);
            }
        }
    }
}
