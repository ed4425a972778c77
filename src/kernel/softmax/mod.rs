//! softmax and its logarithm along an axis.
//!
//! Each line is read for its maximum, then the exponentials of what the scores are below that are
//! written and added up, then what was written is scaled; short enough a line stays in the cache
//! throughout. Lines whose elements are neighbours go straight from where they are to where they
//! belong; others are brought together there first. Where a mask hides entries they become −∞ on the
//! way.
//!
//! An entry is hidden where `keep` is false or the score is −∞; it weighs exactly 0, whatever it held.
//! A line of hidden entries is all 0 (all −∞ for the logarithm). A visible NaN spreads over the
//! visible entries of its line.

mod backward;
#[cfg(test)]
mod tests;

pub(crate) use backward::softmax_backward;

use super::exp::exp_of_negative;
use super::layout::View;
use super::lines::Lines;
use super::output::{in_its_place, written_in_chunks};
use super::parallel::{for_each_chunk, lines_in_piece};
use super::scan::in_place;
use super::scratch::Spare;
use super::simd::elements::{
    lanes, load, load_first, narrow_to, store, store_first, sum_of_lanes, widen,
};
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::Float;
use num_traits::{Float as _, One, Zero};
use std::mem::MaybeUninit;

/// What becomes of a line of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Softmax {
    /// exp(score) / Σ exp(scores) over the visible entries.
    Weights,
    /// score − ln Σ exp(scores) over the visible entries.
    Logarithms,
}

/// Operations for each element, roughly.
const COST: usize = 8;

/// The softmax along axis `at`. `keep` must have the sizes of `scores`.
pub(crate) fn softmax<E: Float>(
    kind: Softmax,
    scores: View<E>,
    at: usize,
    keep: Option<View<bool>>,
) -> Vec<E> {
    let isa = Isa::best();
    let lines = Lines::new(scores, at);
    let keep = keep.map(|keep| Lines::new(keep, at));
    debug_assert!(keep.as_ref().is_none_or(|k| (k.count, k.len) == (lines.count, lines.len)));
    let (n, count) = (lines.len, lines.count * lines.len);
    let group = lines_in_piece(n);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        let (first, rows) = (i * group, out.len() / n);
        if lines.are_slices() && keep.is_none() {
            let mut to = out.as_mut_ptr().cast::<E>();
            lines.for_each_run(first, rows, |from, from_row, count| {
                E::Wide::vectorized(
                    isa,
                    Rows { kind, from: from.as_ptr(), from_row, to, n, count },
                );
                to = to.wrapping_add(count * n);
            });
            return;
        }
        let scores = lines.load(first, out);
        if let Some(keep) = &keep {
            keep.for_each(first, rows, |row, keep| {
                for (score, &keep) in scores[row * n..][..n].iter_mut().zip(keep) {
                    *score = if keep { *score } else { E::narrow(E::Wide::neg_infinity()) };
                }
            });
        }
        E::Wide::vectorized(isa, Rows::in_place(kind, scores, n));
    };
    // SAFETY: a chunk is whole lines. Either the runs have as many of them as it, and `Rows` writes
    // all of them, or `load` does.
    let out = unsafe { written_in_chunks(count, group * n, count * COST, write) };
    in_place(out, scores.layout.with_last(at).dims, at)
}

/// As [`softmax`], of lines of `n` elements one after the other, each in its place.
pub(crate) fn softmax_in_place<E: Float>(kind: Softmax, scores: &mut [E], n: usize) {
    let (isa, work) = (Isa::best(), scores.len() * COST);
    for_each_chunk(scores, lines_in_piece(n) * n, work, |_, chunk| {
        E::Wide::vectorized(isa, Rows::in_place(kind, chunk, n));
    });
}

/// Lines of `n` scores, `from_row` from one to the next, and where the results go, one after the other:
/// to a place that does not overlap, or to the same. Whoever makes one vouches for both.
struct Rows<E> {
    kind: Softmax,
    from: *const E,
    from_row: usize,
    to: *mut E,
    n: usize,
    count: usize,
}

impl<E> Rows<E> {
    fn in_place(kind: Softmax, scores: &mut [E], n: usize) -> Self {
        let (count, (from, to)) = (scores.len() / n, in_its_place(scores));
        Rows { kind, from, from_row: n, to, n, count }
    }
}

/// Short lines that go through each step together: while the maximum or the sum of one is brought
/// together from its lanes, the next is read.
const TOGETHER: usize = 8;
/// Elements in them, at most: a part of the fastest cache.
const NEAR: usize = 2048;

impl<E: Float> Kernel<E::Wide> for Rows<E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        if E::as_wide(&[]).is_some() {
            // SAFETY: the caller's.
            return unsafe { self.in_steps::<V>() };
        }
        let Rows { kind, from, from_row, to, n, count } = self;
        // Made wide and rounded once: between the steps nothing is.
        let together = (NEAR / n).max(1);
        let mut spare = Spare::take(together * n);
        for first in (0..count).step_by(together) {
            let count = together.min(count - first);
            // SAFETY: the instruction set is the caller's, the lines those of `Rows`.
            unsafe {
                for (row, wide) in spare.chunks_exact_mut(n).take(count).enumerate() {
                    let line = from.add((first + row) * from_row);
                    widen::<E, V>(std::slice::from_raw_parts(line, n), wide);
                }
                Rows::in_place(kind, &mut spare[..count * n], n).in_steps::<V>();
                narrow_to::<E, V>(&spare[..count * n], to.add(first * n));
            }
        }
    }
}

impl<E: Float> Rows<E> {
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    #[inline(always)]
    unsafe fn in_steps<V: Vector<Scalar = E::Wide>>(self) {
        let Rows { kind, from, from_row, to, n, count } = self;
        let together = (NEAR / n).clamp(1, TOGETHER);
        let mut first = 0;
        while first < count {
            let rows = together.min(count - first);
            let (mut bases, mut sums) = ([E::Wide::zero(); TOGETHER], [E::Wide::zero(); TOGETHER]);
            // SAFETY: the instruction set is the caller's, the lines those of `Rows`.
            unsafe {
                let (from, to) = (from.add(first * from_row), to.add(first * n));
                for (row, base) in bases[..rows].iter_mut().enumerate() {
                    *base = maximum::<E, V>(from.add(row * from_row), n);
                }
                for (row, (sum, &base)) in sums[..rows].iter_mut().zip(&bases).enumerate() {
                    let (from, to) = (from.add(row * from_row), to.add(row * n));
                    *sum = match kind {
                        Softmax::Weights => exponentials::<E, V, true>(from, to, n, base),
                        Softmax::Logarithms => exponentials::<E, V, false>(from, to, n, base),
                    };
                }
                for (row, (base, sum)) in bases.into_iter().zip(sums).take(rows).enumerate() {
                    let (from, to) = (from.add(row * from_row), to.add(row * n));
                    match kind {
                        Softmax::Weights => scale::<E, V>(to, n, sum),
                        Softmax::Logarithms => shift::<E, V>(from, to, n, (base, sum.ln())),
                    }
                }
            }
            first += rows;
        }
    }
}

/// The maximum of a line, NaN aside; 0 where all is hidden.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `n` elements can be read.
#[inline(always)]
pub(super) unsafe fn maximum<E: Float, V: Vector<Scalar = E::Wide>>(
    from: *const E,
    n: usize,
) -> E::Wide {
    let hidden = E::Wide::neg_infinity();
    let whole = n / V::LANES * V::LANES;
    // SAFETY: the caller's.
    unsafe {
        let rest = load_first::<E, V>(from.add(whole), n - whole, hidden);
        let mut maxima = [rest.max(V::splat(hidden)), V::splat(hidden)];
        let mut at = 0;
        while at + 2 * V::LANES <= whole {
            // A NaN is passed over, and reaches the sum of exponentials.
            for (i, max) in maxima.iter_mut().enumerate() {
                *max = load::<E, V>(from.add(at + i * V::LANES)).max(*max);
            }
            at += 2 * V::LANES;
        }
        if at < whole {
            maxima[1] = load::<E, V>(from.add(at)).max(maxima[1]);
        }
        let mut lanes = lanes(maxima[0].max(maxima[1]));
        let mut half = V::LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = if lanes[i] > lanes[i + half] { lanes[i] } else { lanes[i + half] };
            }
            half /= 2;
        }
        if lanes[0] == hidden { E::Wide::zero() } else { lanes[0] }
    }
}

/// Vectors whose exponentials are added up before they join the sum of the line: long lines then
/// lose no digits.
const BLOCK: usize = 64;

/// The sum of the exponentials of a line less `base`, which go to `to` where they are to be kept.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `n` elements can be read, and written where they are to be
/// kept.
#[inline(always)]
pub(super) unsafe fn exponentials<E: Float, V: Vector<Scalar = E::Wide>, const KEEP: bool>(
    from: *const E,
    to: *mut E,
    n: usize,
    base: E::Wide,
) -> E::Wide {
    let whole = n / V::LANES * V::LANES;
    // SAFETY: the caller's.
    unsafe {
        let base = V::splat(base);
        let mut total = V::splat(E::Wide::zero());
        for block in (0..whole).step_by(BLOCK * V::LANES) {
            let mut sum = V::splat(E::Wide::zero());
            for at in (block..whole.min(block + BLOCK * V::LANES)).step_by(V::LANES) {
                let weight = exp_of_negative(load::<E, V>(from.add(at)).sub(base));
                if KEEP {
                    store(weight, to.add(at));
                }
                sum = sum.add(weight);
            }
            total = total.add(sum);
        }
        if whole < n {
            let hidden = E::Wide::neg_infinity();
            let rest = load_first::<E, V>(from.add(whole), n - whole, hidden);
            let weight = exp_of_negative(rest.sub(base));
            if KEEP {
                store_first(weight, n - whole, to.add(whole));
            }
            total = total.add(weight);
        }
        sum_of_lanes(total)
    }
}

/// Divides the exponentials of a line by their sum.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the line has `n` elements.
#[inline(always)]
unsafe fn scale<E: Float, V: Vector<Scalar = E::Wide>>(line: *mut E, n: usize, sum: E::Wide) {
    let zero = E::Wide::zero();
    if sum.is_nan() || sum == zero {
        // 0 · NaN would be NaN: hidden entries stay 0 beside a visible NaN, and among themselves.
        for i in 0..n {
            // SAFETY: the caller's.
            let x = unsafe { &mut *line.add(i) };
            *x = E::narrow(if x.wide() == zero { zero } else { sum });
        }
        return;
    }
    let factor = E::Wide::one() / sum;
    let whole = n / V::LANES * V::LANES;
    // SAFETY: the caller's.
    unsafe {
        for at in (0..whole).step_by(V::LANES) {
            store(load::<E, V>(line.add(at)).mul(V::splat(factor)), line.add(at));
        }
        for at in whole..n {
            *line.add(at) = E::narrow((*line.add(at)).wide() * factor);
        }
    }
}

/// Takes the maximum and the logarithm of the sum of exponentials from the scores of a line.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `n` elements can be read, and written.
#[inline(always)]
unsafe fn shift<E: Float, V: Vector<Scalar = E::Wide>>(
    from: *const E,
    to: *mut E,
    n: usize,
    (max, log): (E::Wide, E::Wide),
) {
    let hidden = E::Wide::neg_infinity();
    let whole = if log.is_finite() { n / V::LANES * V::LANES } else { 0 };
    // SAFETY: the caller's.
    unsafe {
        for at in (0..whole).step_by(V::LANES) {
            let x = load::<E, V>(from.add(at)).sub(V::splat(max)).sub(V::splat(log));
            store(x, to.add(at));
        }
        for at in whole..n {
            // −∞ − NaN and −∞ + ∞ would be NaN: hidden entries stay −∞.
            let x = (*from.add(at)).wide();
            to.add(at).write(E::narrow(if x == hidden { x } else { x - max - log }));
        }
    }
}
