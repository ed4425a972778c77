//! softmax and its logarithm along an axis.
//!
//! Each line is brought together, hidden entries become −∞, the maximum is subtracted, and the
//! exponentials are added up in the wide type. An entry is hidden where `keep` is false or the score
//! is −∞; it weighs exactly 0, whatever it held. A line of hidden entries is all 0 (all −∞ for the
//! logarithm). A visible NaN spreads over the visible entries of its line.

use super::layout::View;
use super::lines::Lines;
use super::reduce::{line_max, pairwise};
use super::scan::{in_place, map_lines};
use crate::element::{Float, Real};
use crate::kernel::layout::Layout;
use crate::kernel::parallel::for_each_chunk;
use num_traits::{Float as _, Zero};

/// exp(score) / Σ exp(scores) over the visible entries. `keep` must have the sizes of `scores`.
pub(crate) fn softmax<E: Float>(scores: View<E>, at: usize, keep: Option<View<bool>>) -> Vec<E> {
    visible_lines(scores, at, keep, |line, out| {
        softmax_line(line);
        out.iter_mut().zip(&*line).for_each(|(out, &x)| *out = E::narrow(x));
    })
}

/// score − ln Σ exp(scores) over the visible entries. `keep` must have the sizes of `scores`.
pub(crate) fn log_softmax<E: Float>(
    scores: View<E>,
    at: usize,
    keep: Option<View<bool>>,
) -> Vec<E> {
    visible_lines(scores, at, keep, |line, out| {
        log_softmax_line(line);
        out.iter_mut().zip(&*line).for_each(|(out, &x)| *out = E::narrow(x));
    })
}

/// Scores to weights; −∞ is hidden.
pub(super) fn softmax_line<R: Real>(line: &mut [R]) {
    let max = line_max(line);
    if max == R::neg_infinity() {
        return line.fill(R::zero());
    }
    for x in line.iter_mut() {
        *x = if *x == R::neg_infinity() { R::zero() } else { (*x - max).exp() };
    }
    let sum = pairwise(line, &|x| x);
    for x in line.iter_mut() {
        // 0 / NaN would be NaN: hidden entries stay 0 beside a visible NaN.
        *x = if *x == R::zero() { *x } else { *x / sum };
    }
}

fn log_softmax_line<R: Real>(line: &mut [R]) {
    let max = line_max(line);
    if max == R::neg_infinity() {
        return;
    }
    let sum = pairwise(line, &|x| if x == R::neg_infinity() { R::zero() } else { (x - max).exp() });
    let log = sum.ln();
    for x in line.iter_mut() {
        *x = if *x == R::neg_infinity() { *x } else { *x - max - log };
    }
}

/// `f` of every line, in which hidden entries are −∞.
fn visible_lines<E: Float>(
    scores: View<E>,
    at: usize,
    keep: Option<View<bool>>,
    f: impl Fn(&mut [E::Wide], &mut [E]) + Sync,
) -> Vec<E> {
    let Some(keep) = keep else {
        return map_lines(scores, at, E::wide, f);
    };
    let (lines, keep) = (Lines::new(scores, at), Lines::new(keep, at));
    debug_assert_eq!((lines.count, lines.len), (keep.count, keep.len));
    let (n, group) = (lines.len, lines.group());
    let mut out = vec![E::default(); lines.count * n];
    let work = out.len() * 8;
    for_each_chunk(&mut out, group * n, work, |i, out| {
        let mut scores = vec![E::Wide::zero(); out.len()];
        let mut visible = vec![false; out.len()];
        lines.load(i * group, &mut scores, E::wide);
        keep.load(i * group, &mut visible, |keep| keep);
        for (x, &visible) in scores.iter_mut().zip(&visible) {
            *x = if visible { *x } else { E::Wide::neg_infinity() };
        }
        for (line, out) in scores.chunks_exact_mut(n).zip(out.chunks_exact_mut(n)) {
            f(line, out);
        }
    });
    let last = scores.layout.rank() - 1;
    in_place(out, Layout::packed(&scores.layout.dims.removed(at).inserted(last, n)), at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

    fn row<E>(data: &[E]) -> View<'_, E> {
        View { data, layout: Layout::packed(&[data.len()]) }
    }

    /// The twin: the definition, in f64.
    fn slow(scores: &[f64], keep: &[bool]) -> Vec<f64> {
        let visible = |i: usize| keep[i] && scores[i] != f64::NEG_INFINITY;
        let max =
            (0..scores.len()).filter(|&i| visible(i)).map(|i| scores[i]).fold(-1e300, f64::max);
        let exp: Vec<f64> = (0..scores.len())
            .map(|i| if visible(i) { (scores[i] - max).exp() } else { 0.0 })
            .collect();
        let sum: f64 = exp.iter().sum();
        exp.iter().map(|x| if sum == 0.0 { 0.0 } else { x / sum }).collect()
    }

    #[test]
    fn softmax_matches_its_definition_for_any_axis_strides_and_threads() {
        let mut rng = Rng::new(6);
        let block = rng.block::<f32>(&[4, 37, 3]);
        let keep: Vec<bool> = (0..37).map(|_| rng.below(3) > 0).collect();
        let keep = View { data: &keep, layout: Layout::packed(&[37]).broadcast(&[4, 37, 3], &[1]) };
        let result = in_pools(|| bits(&softmax(block.view(), 1, Some(keep))));
        let logs = log_softmax(block.view(), 1, Some(keep));
        for kind in 0..3 {
            assert_eq!(bits(&softmax(block.scattered(kind).view(), 1, Some(keep))), result);
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
        assert_eq!(softmax(row(&x), 0, None), [0.0; 3]);
        assert_eq!(log_softmax(row(&x), 0, None), x);
        let keep = [false; 3];
        assert_eq!(softmax(row(&[1f32, f32::NAN, 2.0]), 0, Some(row(&keep))), [0.0; 3]);
        assert_eq!(log_softmax(row(&[1f32, f32::NAN, 2.0]), 0, Some(row(&keep))), x);
        assert_eq!(softmax(row::<f32>(&[]), 0, None), [0.0; 0]);
    }

    #[test]
    fn hidden_entries_weigh_nothing_whatever_they_hold() {
        let x = [200f32, f32::NAN, 200.0, f32::INFINITY, 0.0];
        let keep = [true, false, true, false, true];
        assert_eq!(softmax(row(&x), 0, Some(row(&keep))), [0.5, 0.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn a_visible_nan_stays_in_its_row() {
        let x = [1f32, f32::NAN, f32::NEG_INFINITY, 1.0, 1.0, 1.0];
        let view = View { data: &x, layout: Layout::packed(&[2, 3]) };
        let weights = softmax(view, 1, None);
        assert!(weights[0].is_nan() && weights[1].is_nan() && weights[2] == 0.0);
        assert!(weights[3..].iter().all(|w| (w - 1.0 / 3.0).abs() < 1e-7));
    }
}
