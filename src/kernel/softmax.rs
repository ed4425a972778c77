//! softmax and its logarithm along an axis.
//!
//! Each line is brought together, hidden entries become −∞, the maximum is subtracted, and the
//! exponentials are added up in the wide type. An entry is hidden where `keep` is false or the score
//! is −∞; it weighs exactly 0, whatever it held. A line of hidden entries is all 0 (all −∞ for the
//! logarithm). A visible NaN spreads over the visible entries of its line.

use super::exp::exp_of_negative;
use super::layout::{Layout, View};
use super::lines::Lines;
use super::parallel::for_each_chunk;
use super::scan::{in_place, map_lines};
use super::simd::{Isa, Kernel, Lanes, MAX_LANES, Vector};
use crate::element::Float;
use num_traits::{Float as _, Zero};

/// exp(score) / Σ exp(scores) over the visible entries. `keep` must have the sizes of `scores`.
pub(crate) fn softmax<E: Float>(scores: View<E>, at: usize, keep: Option<View<bool>>) -> Vec<E> {
    let isa = Isa::best();
    visible_lines(scores, at, keep, |line, out| {
        E::Wide::vectorized(isa, Softmax { line, out, logarithm: false });
    })
}

/// score − ln Σ exp(scores) over the visible entries. `keep` must have the sizes of `scores`.
pub(crate) fn log_softmax<E: Float>(
    scores: View<E>,
    at: usize,
    keep: Option<View<bool>>,
) -> Vec<E> {
    let isa = Isa::best();
    visible_lines(scores, at, keep, |line, out| {
        E::Wide::vectorized(isa, Softmax { line, out, logarithm: true });
    })
}

/// One line, in which hidden scores are −∞, to its weights or their logarithms.
struct Softmax<'a, E: Float> {
    line: &'a mut [E::Wide],
    out: &'a mut [E],
    logarithm: bool,
}

impl<E: Float> Kernel<E::Wide> for Softmax<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let (hidden, zero) = (E::Wide::neg_infinity(), E::Wide::zero());
        // SAFETY: the instruction set is the caller's.
        let (max, sum) = unsafe { exponentials::<V>(self.line, !self.logarithm) };
        if self.logarithm {
            let log = sum.ln();
            for (out, &x) in self.out.iter_mut().zip(&*self.line) {
                *out = E::narrow(if x == hidden { x } else { x - max - log });
            }
        } else {
            for (out, &x) in self.out.iter_mut().zip(&*self.line) {
                // 0 / NaN would be NaN: hidden entries stay 0 beside a visible NaN.
                *out = E::narrow(if x == zero { x } else { x / sum });
            }
        }
    }
}

/// Vectors whose exponentials are added up before they join the sum of the line: long lines then
/// lose no digits.
const BLOCK: usize = 64;

/// The exponentials of a line less its maximum, in the place of the scores if asked to `keep` them.
/// Gives the maximum, NaN aside and 0 where all is hidden, and the sum of the exponentials.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn exponentials<V: Vector>(line: &mut [V::Scalar], keep: bool) -> (V::Scalar, V::Scalar) {
    let (hidden, zero) = (V::Scalar::neg_infinity(), V::Scalar::zero());
    // What does not fill a vector is filled up with hidden entries.
    let (line, rest) = line.split_at_mut(line.len() / V::LANES * V::LANES);
    let mut tail = [hidden; MAX_LANES];
    tail[..rest.len()].copy_from_slice(rest);
    let tail = &mut tail[..V::LANES];
    // SAFETY: the instruction set is the caller's; the chunks have `LANES` entries.
    unsafe {
        let mut max = V::load(tail.as_ptr()).max(V::splat(hidden));
        for x in line.chunks_exact(V::LANES) {
            // A NaN is passed over, and reaches the sum below.
            max = V::load(x.as_ptr()).max(max);
        }
        let max = lanes(max)[..V::LANES].iter().fold(hidden, |m, &x| m.max(x));
        let max = if max == hidden { zero } else { max };
        let base = V::splat(max);
        let mut total = V::splat(zero);
        for block in line.chunks_mut(BLOCK * V::LANES).chain([&mut *tail]) {
            let mut sum = V::splat(zero);
            for x in block.chunks_exact_mut(V::LANES) {
                let weight = exp_of_negative(V::load(x.as_ptr()).sub(base));
                sum = sum.add(weight);
                if keep {
                    weight.store(x.as_mut_ptr());
                }
            }
            total = total.add(sum);
        }
        if keep {
            rest.copy_from_slice(&tail[..rest.len()]);
        }
        (max, lanes(total)[..V::LANES].iter().fold(zero, |sum, &x| sum + x))
    }
}

/// The entries of a vector, the first `LANES` of the result.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn lanes<V: Vector>(vector: V) -> [V::Scalar; MAX_LANES] {
    let mut lanes = [V::Scalar::zero(); MAX_LANES];
    // SAFETY: the caller's; no vector has more lanes.
    unsafe { vector.store(lanes.as_mut_ptr()) };
    lanes
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
    fn long_rows_keep_their_digits_on_every_length() {
        let mut rng = Rng::new(13);
        for n in (1..40).chain([50_257]) {
            let x = rng.values::<f32>(n);
            let scores: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let weights = softmax(row(&x), 0, None);
            for (actual, expected) in weights.iter().zip(slow(&scores, &vec![true; n])) {
                assert!((f64::from(*actual) - expected).abs() <= 4e-7 * expected);
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
                let (mut weights, mut logs) = (vec![0f32; n], vec![0f32; n]);
                let line = &mut x.clone()[..];
                f32::vectorized(isa, Softmax { line, out: &mut weights, logarithm: false });
                f32::vectorized(isa, Softmax { line: &mut x, out: &mut logs, logarithm: true });
                for ((weight, log), expected) in weights.iter().zip(&logs).zip(expected) {
                    assert!(
                        (f64::from(*weight) - expected).abs() <= 4e-7 * expected,
                        "{isa:?} {n}"
                    );
                    assert!((f64::from(*log).exp() - expected).abs() <= 2e-6 * expected);
                }
            }
        }
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
