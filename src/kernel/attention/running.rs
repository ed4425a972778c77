//! The softmax of a group of queries while the keys pass by: a running maximum and a running sum for
//! each query, and the factor by which a risen maximum scales down what was summed before it. Scores
//! are binary logarithms of weights.

use super::head_mask::{HeadMask, Visible};
use crate::element::{Float, Real};
use crate::kernel::exp::exp2_of_negative;
use crate::kernel::simd::Vector;
use crate::kernel::tile::columns;
use num_traits::{Float as _, Zero};
use std::array::from_fn;
use std::ops::Range;

/// A few queries whose scores with a block of keys exist at one time. All numbers are wide; rows over
/// queries have `width` places, whole tiles of columns.
pub(super) struct Group<'s, E: Float> {
    /// Counted from the first of the piece.
    pub(super) queries: Range<usize>,
    pub(super) width: usize,
    pub(super) mask: HeadMask<'s, E>,
    /// Qᵀ · scale in panels of a tile's columns.
    pub(super) q: &'s mut [E::Wide],
    /// A row of Dv, padded to whole tiles, for each query.
    pub(super) sums: &'s mut [E::Wide],
    /// For each query: the maximum so far, and the sum of weights.
    pub(super) max: &'s mut [E::Wide],
    pub(super) total: &'s mut [E::Wide],
    /// For each relative position, a row of the sum of the weights of each query's keys there.
    pub(super) buckets: &'s mut [E::Wide],
    /// What of the block of keys at hand is visible.
    pub(super) visible: Visible,
    /// Whether the sums were never written.
    pub(super) fresh: bool,
}

/// What the groups use by turns, all of it wide.
pub(super) struct Scratch<'s, R> {
    /// A row for each key of the block: scores, then weights that are not yet divided by their sum.
    pub(super) scores: &'s mut [R],
    /// For each query, what the block scales the sums so far by.
    pub(super) factor: &'s mut [R],
    /// A block of V in panels of a tile's columns.
    pub(super) v: &'s mut [R],
    /// The keys of a block, where they must be converted.
    pub(super) k: &'s mut [R],
}

/// Turns the scores of a block into weights relative to the running maximum. What was summed so far is to
/// be scaled by the `factor`s; the totals and buckets are already.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there is a row of scores for each key.
#[inline(always)]
pub(super) unsafe fn update<V: Vector, E: Float<Wide = V::Scalar>>(
    group: &mut Group<E>,
    scratch: &mut Scratch<V::Scalar>,
    keys: usize,
) {
    let width = group.width;
    for panel in (0..width).step_by(columns::<V>()) {
        let bound = group.mask.bound(panel..panel + columns::<V>(), keys);
        let places = [panel, panel + V::LANES];
        // SAFETY: the instruction set is the caller's; the panel lies within rows of `width`.
        unsafe {
            let scores = scratch.scores[panel..].as_mut_ptr();
            let old = places.map(|at| V::load(group.max[at..].as_ptr()));
            let mut max = old;
            let mut place = scores;
            for _ in 0..bound {
                for (i, max) in max.iter_mut().enumerate() {
                    // A NaN is passed over here, and reaches the total through its weight.
                    *max = V::load(place.add(i * V::LANES)).max(*max);
                }
                place = place.wrapping_add(width);
            }
            let zero = V::splat(V::Scalar::zero());
            let nothing = V::splat(V::Scalar::neg_infinity());
            // Where nothing is visible yet, −∞ − −∞ would be NaN.
            let bases = max.map(|max| nothing.if_less(max, max, zero));
            let mut sums = [zero; 2];
            let mut place = scores;
            for _ in 0..bound / 2 {
                weigh::<V, 4>(place, width, bases, &mut sums);
                place = place.wrapping_add(2 * width);
            }
            if !bound.is_multiple_of(2) {
                weigh::<V, 2>(place, width, bases, &mut sums);
            }
            let factors = exp2_of_negative([old[0].sub(bases[0]), old[1].sub(bases[1])]);
            for (i, at) in places.into_iter().enumerate() {
                let factor = factors[i];
                factor.store(scratch.factor[at..].as_mut_ptr());
                max[i].store(group.max[at..].as_mut_ptr());
                let total = group.total[at..].as_mut_ptr();
                V::load(total).mul_add(factor, sums[i]).store(total);
            }
        }
        // Beyond the bound lies what was there before; a tile of the product with V may also have
        // rows of the next panel, and read as far as that one's bound.
        for row in scratch.scores[bound * width..keys * width].chunks_exact_mut(width) {
            row[panel..panel + columns::<V>()].fill(V::Scalar::zero());
        }
    }
    if !group.fresh {
        for sums in group.buckets.chunks_exact_mut(width) {
            sums.iter_mut().zip(&*scratch.factor).for_each(|(sum, &factor)| *sum *= factor);
        }
    }
}

/// Turns the scores of a panel with N / 2 keys, a row of `width` each, into weights, and adds those
/// to the sums.
///
/// # Safety
///
/// The processor has the instruction set of `V`, and the scores exist.
#[inline(always)]
unsafe fn weigh<V: Vector, const N: usize>(
    scores: *mut V::Scalar,
    width: usize,
    bases: [V; 2],
    sums: &mut [V; 2],
) {
    // SAFETY: the caller's.
    unsafe {
        let place = |i: usize| scores.add(i / 2 * width + i % 2 * V::LANES);
        let weights = exp2_of_negative::<V, N>(from_fn(|i| V::load(place(i)).sub(bases[i % 2])));
        for (i, weight) in weights.into_iter().enumerate() {
            weight.store(place(i));
            sums[i % 2] = sums[i % 2].add(weight);
        }
    }
}

/// Scales sums, a row of V for each query, down to a maximum that has risen.
#[inline(always)]
pub(super) fn rescale<R: Real>(sums: &mut [R], row: usize, factor: &[R]) {
    for (sums, &factor) in sums.chunks_exact_mut(row.max(1)).zip(factor) {
        if factor == R::zero() {
            sums.fill(factor); // 0 · ∞ would be NaN
        } else if factor != R::one() {
            sums.iter_mut().for_each(|sum| *sum *= factor);
        }
    }
}
