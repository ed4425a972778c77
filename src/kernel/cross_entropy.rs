//! Cross entropy from logits, row by row: the logarithm of the sum of the exponentials, the losses, and
//! the gradient in one pass.
//!
//! With p = softmax(x), class weights w, smoothing e over K classes and target t, a row's loss is
//! (1 − e) · w_t · (L − x_t) + e/K · Σ w_c · (L − x_c), L = ln Σ exp(x); its gradient is
//! p · ((1 − e) · w_t + e/K · Σ w_c) − e/K · w, and (1 − e) · w_t less at t. What has the weight 0 adds nothing,
//! whatever its logit is.

use super::exp::exp_of_negative;
use super::layout::View;
use super::lines::Lines;
use super::output::written_in_chunks;
use super::parallel::{for_each_chunk_pair, lines_in_piece};
use super::simd::elements::{load, load_first, store, store_first};
use super::simd::{Isa, Kernel, Lanes, Vector};
use super::softmax::{exponentials, maximum};
use super::wide::through_wide;
use crate::element::Float;
use num_traits::{Float as _, Zero};
use std::mem::MaybeUninit;

/// Operations for each element, roughly.
const COST: usize = 8;

/// What a loss does besides its rows.
#[derive(Clone, Copy)]
pub(crate) struct Smoothing<'a, E> {
    /// The share of the loss that all classes have alike.
    pub(crate) share: f64,
    /// One for each class.
    pub(crate) weights: Option<&'a [E]>,
}

impl<E: Float> Smoothing<'_, E> {
    /// What the target's loss is multiplied by.
    fn of_target(&self, target: usize) -> E::Wide {
        let weight = self.weights.map_or(1.0, |weights| weights[target].to_f64());
        E::Wide::from_f64((1.0 - self.share) * weight)
    }

    /// What the loss of each class is multiplied by, before its weight.
    #[allow(clippy::cast_precision_loss, reason = "classes below 2^53 are exact")]
    fn of_each(&self, classes: usize) -> E::Wide {
        E::Wide::from_f64(self.share / classes as f64)
    }

    /// The sum of the class weights.
    #[allow(clippy::cast_precision_loss, reason = "classes below 2^53 are exact")]
    fn total(&self, classes: usize) -> E::Wide {
        let sum = |weights: &[E]| weights.iter().map(|weight| weight.to_f64()).sum();
        E::Wide::from_f64(self.weights.map_or(classes as f64, sum))
    }
}

/// The loss of each row along the last axis and its logarithm L, 0 where there is no target.
pub(crate) fn losses<E: Float>(
    logits: View<E>,
    targets: &[Option<usize>],
    smoothing: Smoothing<E>,
) -> [Vec<E::Wide>; 2] {
    let lines = Lines::new(logits, logits.layout.rank() - 1);
    let (n, isa) = (lines.len, Isa::best());
    assert_eq!(lines.count, targets.len());
    let mut results = [0, 1].map(|_| vec![E::Wide::zero(); lines.count]);
    let [losses, logarithms] = &mut results;
    let group = lines_in_piece(n);
    let (each, total) = (smoothing.of_each(n), smoothing.total(n));
    let (losses, logarithms) = ((&mut losses[..], group), (&mut logarithms[..], group));
    for_each_chunk_pair(losses, logarithms, lines.count * n * COST, |i, losses, logarithms| {
        lines.for_each(i * group, losses.len(), |row, x| {
            let Some(target) = targets[i * group + row] else { return };
            let logarithm = E::Wide::vectorized(isa, Logarithm(x));
            let of_target = smoothing.of_target(target);
            let mut loss = E::Wide::zero();
            if !of_target.is_zero() {
                loss = of_target * (logarithm - x[target].wide());
            }
            if smoothing.share > 0.0 && !total.is_zero() {
                loss += each * (total * logarithm - weighted_sum(x, smoothing.weights));
            }
            (losses[row], logarithms[row]) = (loss, logarithm);
        });
    });
    results
}

fn weighted_sum<E: Float>(x: &[E], weights: Option<&[E]>) -> E::Wide {
    match weights {
        Some(weights) => {
            let counted = x.iter().zip(weights).filter(|(_, w)| !w.wide().is_zero());
            counted.fold(E::Wide::zero(), |sum, (x, w)| sum + x.wide() * w.wide())
        }
        None => x.iter().fold(E::Wide::zero(), |sum, x| sum + x.wide()),
    }
}

/// The gradient of the logits, given that of every row's loss. Row-major.
pub(crate) fn cross_entropy_backward<E: Float>(
    logits: View<E>,
    targets: &[Option<usize>],
    logarithms: &[E::Wide],
    gradient: E::Wide,
    smoothing: Smoothing<E>,
) -> Vec<E> {
    let lines = Lines::new(logits, logits.layout.rank() - 1);
    let (n, isa) = (lines.len, Isa::best());
    let group = lines_in_piece(n);
    let (each, total) = (gradient * smoothing.of_each(n), smoothing.total(n));
    let write = |i, out: &mut [MaybeUninit<E>]| {
        let rows = lines.load(i * group, out);
        for (row, x) in rows.chunks_exact_mut(n).enumerate() {
            let row = i * group + row;
            let Some(target) = targets[row] else {
                x.fill(E::default());
                continue;
            };
            let of_target = gradient * smoothing.of_target(target);
            let (logarithm, factor) = (logarithms[row], of_target + each * total);
            if factor.is_zero() {
                x.fill(E::default());
                continue;
            }
            through_wide(x, |x| {
                E::Wide::vectorized(isa, Weights { x, logarithm, factor });
                match smoothing.weights {
                    _ if each.is_zero() => {}
                    Some(weights) => {
                        x.iter_mut().zip(weights).for_each(|(x, w)| *x -= each * w.wide());
                    }
                    None => x.iter_mut().for_each(|x| *x -= each),
                }
                x[target] -= of_target;
            });
        }
    };
    // SAFETY: a chunk is whole lines, and `load` writes all of them.
    unsafe { written_in_chunks(lines.count * n, group * n, lines.count * n * COST, write) }
}

/// ln Σ exp(x) of a row.
struct Logarithm<'a, E>(&'a [E]);

impl<E: Float> Kernel<E::Wide> for Logarithm<'_, E> {
    type Output = E::Wide;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) -> E::Wide {
        let (x, n) = (self.0.as_ptr(), self.0.len());
        // SAFETY: the instruction set is the caller's, and the row a slice; its exponentials are not kept.
        unsafe {
            let base = maximum::<E, V>(x, n);
            base + exponentials::<E, V, false>(x, x.cast_mut(), n, base).ln()
        }
    }
}

/// factor · exp(x − L) in the place of x.
struct Weights<'a, E: Float> {
    x: &'a mut [E],
    logarithm: E::Wide,
    factor: E::Wide,
}

impl<E: Float> Kernel<E::Wide> for Weights<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let (x, n) = (self.x.as_mut_ptr(), self.x.len());
        let whole = n / V::LANES * V::LANES;
        // SAFETY: the instruction set is the caller's, and the row a slice.
        unsafe {
            let (logarithm, factor) = (V::splat(self.logarithm), V::splat(self.factor));
            let weight = |x: V| exp_of_negative(x.sub(logarithm)).mul(factor);
            for at in (0..whole).step_by(V::LANES) {
                store(weight(load::<E, V>(x.add(at))), x.add(at));
            }
            if whole < n {
                let rest = load_first::<E, V>(x.add(whole), n - whole, E::Wide::zero());
                store_first(weight(rest), n - whole, x.add(whole));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

    #[test]
    fn losses_and_gradients_match_their_definition() {
        let mut rng = Rng::new(78);
        for n in (1..40).chain([500]) {
            for share in [0.0, 0.1] {
                let x = rng.block::<f64>(&[3, n]);
                let weights: Vec<f64> = (0..n).map(|_| rng.unit() + 0.5).collect();
                let targets = [Some(rng.below(n)), None, Some(rng.below(n))];
                for weights in [None, Some(&weights[..])] {
                    let smoothing = Smoothing { share, weights };
                    let [loss, logs] = losses(x.view(), &targets, smoothing);
                    let back = cross_entropy_backward(x.view(), &targets, &logs, 2.0, smoothing);
                    for (row, target) in targets.iter().enumerate() {
                        let x = &x.data[row * n..][..n];
                        let (value, slope) = slow(x, *target, smoothing);
                        assert!((loss[row] - value).abs() < 1e-12 * (1.0 + value), "{n}");
                        for (a, b) in back[row * n..][..n].iter().zip(slope) {
                            assert!((a - 2.0 * b).abs() < 1e-13, "{n}: {a} {b}");
                        }
                    }
                }
            }
        }
    }

    /// The twin: the definition, in f64.
    fn slow(x: &[f64], target: Option<usize>, smoothing: Smoothing<f64>) -> (f64, Vec<f64>) {
        let Some(target) = target else { return (0.0, vec![0.0; x.len()]) };
        let n = x.len() as f64;
        let sum: f64 = x.iter().map(|x| x.exp()).sum();
        let weight = |c: usize| smoothing.weights.map_or(1.0, |weights| weights[c]);
        let part = |c: usize| {
            let target = if c == target { 1.0 - smoothing.share } else { 0.0 };
            weight(c) * (target + smoothing.share / n)
        };
        let loss = (0..x.len()).map(|c| part(c) * (sum.ln() - x[c])).sum();
        let total: f64 = (0..x.len()).map(part).sum();
        (loss, (0..x.len()).map(|c| total * x[c].exp() / sum - part(c)).collect())
    }

    #[test]
    fn strides_and_threads_change_no_bit() {
        let mut rng = Rng::new(79);
        let x = rng.block::<f32>(&[40, 30, 90]);
        let targets: Vec<_> = (0..1200).map(|_| Some(rng.below(90))).collect();
        let smoothing = Smoothing { share: 0.1, weights: None };
        let all = |x: View<f32>| {
            let [loss, logs] = losses(x, &targets, smoothing);
            let back = cross_entropy_backward(x, &targets, &logs, 0.5, smoothing);
            bits(&[loss, back].concat())
        };
        let expected = in_pools(|| all(x.view()));
        for kind in 0..3 {
            assert_eq!(all(x.scattered(kind).view()), expected);
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let x = View {
            data: &[1e4f32, 0.0, -1e4],
            layout: super::super::layout::Layout::packed(&[1, 3]),
        };
        let smoothing = Smoothing { share: 0.0, weights: None };
        let [loss, logs] = losses(x, &[Some(2)], smoothing);
        assert_eq!(loss, [2e4]);
        let back = cross_entropy_backward(x, &[Some(2)], &logs, 1.0, smoothing);
        assert_eq!(back, [1.0, 0.0, -1.0]);
    }
}
