//! The gradient of softmax and of its logarithm, line by line.
//!
//! With w the weights, y their logarithms and g the gradient of either, x's is w · (g − Σ g·w), or
//! g − w · Σ g. What is hidden has gradient 0, and its own g, whatever that is, reaches no other.

use super::{COST, Softmax};
use crate::element::Float;
use crate::kernel::exp::exp;
use crate::kernel::layout::View;
use crate::kernel::lines::Lines;
use crate::kernel::output::written_in_chunks;
use crate::kernel::parallel::lines_in_piece;
use crate::kernel::scan::in_place;
use crate::kernel::simd::elements::{load, load_first, store, store_first, sum_of_lanes};
use crate::kernel::simd::{Isa, Kernel, Lanes, Vector};
use num_traits::{Float as _, Zero};
use std::mem::MaybeUninit;

/// The gradient of the scores, given what softmax made of them and the gradient of that.
pub(crate) fn softmax_backward<E: Float>(
    kind: Softmax,
    result: View<E>,
    gradient: View<E>,
    at: usize,
) -> Vec<E> {
    let isa = Isa::best();
    let (results, gradients) = (Lines::new(result, at), Lines::new(gradient, at));
    let (n, count) = (results.len, results.count * results.len);
    assert_eq!((gradients.count, gradients.len), (results.count, n));
    let group = lines_in_piece(n);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        let (first, rows) = (i * group, out.len() / n);
        let lines = gradients.load(first, out);
        results.for_each(first, rows, |row, result| {
            let gradient = &mut lines[row * n..][..n];
            E::Wide::vectorized(isa, Line { kind, result, gradient });
        });
    };
    // SAFETY: a chunk is whole lines, and `load` writes all of them.
    let out = unsafe { written_in_chunks(count, group * n, count * COST, write) };
    in_place(out, result.layout.with_last(at).dims, at)
}

/// A line of results and the gradient of it, in whose place that of the scores is put.
struct Line<'a, E> {
    kind: Softmax,
    result: &'a [E],
    gradient: &'a mut [E],
}

impl<E: Float> Kernel<E::Wide> for Line<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let n = self.result.len();
        assert_eq!(self.gradient.len(), n);
        let (y, g) = (self.result.as_ptr(), self.gradient.as_mut_ptr());
        let whole = n / V::LANES * V::LANES;
        let zero = E::Wide::zero();
        // SAFETY: the instruction set is the caller's; both lines have `n` elements.
        unsafe {
            let rest = |from: *const E| load_first::<E, V>(from.add(whole), n - whole, zero);
            let mut sums = [V::splat(zero); 2];
            for at in (0..whole).step_by(V::LANES) {
                let sum = &mut sums[at / V::LANES % 2];
                *sum = sum.add(term(self.kind, load::<E, V>(y.add(at)), load::<E, V>(g.add(at))));
            }
            // In the lanes past the end both are 0, and so is the term.
            sums[0] = sums[0].add(term(self.kind, rest(y), rest(g)));
            let sum = V::splat(sum_of_lanes(sums[0].add(sums[1])));
            for at in (0..whole).step_by(V::LANES) {
                let (y, x) = (load::<E, V>(y.add(at)), load::<E, V>(g.add(at)));
                store(of_score(self.kind, y, x, sum), g.add(at));
            }
            if whole < n {
                let x = of_score(self.kind, rest(y), rest(g), sum);
                store_first(x, n - whole, g.add(whole));
            }
        }
    }
}

/// What a visible entry adds to the sum over its line.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn term<V: Vector>(kind: Softmax, y: V, g: V) -> V {
    // SAFETY: the caller's.
    unsafe {
        let zero = V::splat(V::Scalar::zero());
        match kind {
            Softmax::Weights => zero.if_less(y, g.mul(y), zero),
            Softmax::Logarithms => V::splat(V::Scalar::neg_infinity()).if_less(y, g, zero),
        }
    }
}

/// The gradient of a score; a NaN in the result stays one.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn of_score<V: Vector>(kind: Softmax, y: V, g: V, sum: V) -> V {
    // SAFETY: the caller's.
    unsafe {
        match kind {
            Softmax::Weights => V::splat(V::Scalar::zero()).if_less(y, y.mul(g.sub(sum)), y),
            Softmax::Logarithms => {
                let weight = exp(y);
                let visible = g.sub(weight.mul(sum));
                V::splat(V::Scalar::neg_infinity()).if_less(y, visible, weight)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::softmax::softmax;
    use crate::kernel::testing::{Block, Rng, bits, in_pools};

    /// The twin: the definition, in f64.
    fn slow(kind: Softmax, y: &[f64], g: &[f64]) -> Vec<f64> {
        let hidden = |y: f64| match kind {
            Softmax::Weights => y == 0.0,
            Softmax::Logarithms => y == f64::NEG_INFINITY,
        };
        let (mut dot, mut sum) = (0.0, 0.0);
        for (&y, &g) in y.iter().zip(g).filter(|(y, _)| !hidden(**y)) {
            dot += y * g;
            sum += g;
        }
        let of = |(&y, &g): (&f64, &f64)| match kind {
            _ if hidden(y) => 0.0,
            Softmax::Weights => y * (g - dot),
            Softmax::Logarithms => g - y.exp() * sum,
        };
        y.iter().zip(g).map(of).collect()
    }

    #[test]
    fn every_length_and_stride_matches_the_definition() {
        let mut rng = Rng::new(70);
        for kind in [Softmax::Weights, Softmax::Logarithms] {
            for n in (0..40).chain([100, 1000]) {
                let (x, mut g) = (rng.block::<f64>(&[3, n]), rng.block::<f64>(&[3, n]));
                let keep: Vec<bool> = (0..3 * n).map(|_| rng.below(4) > 0).collect();
                let mask = View { data: &keep, layout: x.layout };
                let y = Block { data: softmax(kind, x.view(), 1, Some(mask)), layout: x.layout };
                // A gradient of what is hidden may be anything.
                for (g, keep) in g.data.iter_mut().zip(&keep) {
                    *g = if *keep { *g } else { f64::NAN };
                }
                let result = softmax_backward(kind, y.view(), g.view(), 1);
                let lines = y.data.chunks(n.max(1)).zip(g.data.chunks(n.max(1)));
                let expected: Vec<_> = lines.flat_map(|(y, g)| slow(kind, y, g)).collect();
                for (a, b) in result.iter().zip(&expected) {
                    assert!((a - b).abs() < 1e-12, "{n}: {a} {b}");
                }
                for i in 0..3 {
                    let (y, g) = (y.scattered(i), g.scattered(2 - i));
                    let other = softmax_backward(kind, y.view(), g.view(), 1);
                    assert_eq!(bits(&other), bits(&result));
                }
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let mut rng = Rng::new(71);
        let (x, g) = (rng.block::<f32>(&[300, 3, 70]), rng.block::<f32>(&[300, 3, 70]));
        for at in 0..3 {
            let y = softmax(Softmax::Weights, x.view(), at, None);
            let y = View { data: &y, layout: x.layout };
            in_pools(|| bits(&softmax_backward(Softmax::Weights, y, g.view(), at)));
        }
    }
}
