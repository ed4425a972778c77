//! Scores of rows with a block of keys, and the softmax of a row of them.

use super::lines::Lines;
use crate::kernel::exp::exp_of_negative;
use crate::kernel::simd::elements::prefetch;
use crate::kernel::simd::{MAX_LANES, Vector};
use num_traits::{Float as _, Zero};

/// Keys whose scores are made at a time: whole vectors of any set.
pub(super) const GROUP: usize = MAX_LANES;
/// The most rows of a tile.
const TILE: usize = 4;

/// Writes the products of rows of Q, `dp` wide, and `keys` lines of K over those scores that are not
/// below 0, in whole groups of keys.
///
/// # Safety
///
/// The processor has the instruction set of `V`. There are `rows` rows of Q and `keys` lines, of `dp`
/// columns, a multiple of the lanes; each row has scores for whole groups of keys, rows `width` apart.
#[inline(always)]
pub(super) unsafe fn score<V: Vector>(
    (q, rows, dp): (*const V::Scalar, usize, usize),
    (k, keys): (Lines<V::Scalar>, usize),
    (scores, width): (*mut V::Scalar, usize),
) {
    let mut lanes = [V::Scalar::zero(); TILE * GROUP * MAX_LANES];
    for first in (0..keys).step_by(GROUP) {
        // The last group ends with the last key again; its places are below 0.
        let key = |j: usize| k.at.wrapping_add((first + j).min(keys - 1) * k.row);
        let group: [*const V::Scalar; GROUP] = std::array::from_fn(key);
        // Lines side by side are foreseen by the processor, but not far enough where rows take turns.
        if k.row != dp || rows > 1 {
            for key in group {
                // SAFETY: the instruction set is the caller's.
                unsafe { prefetch::<_, V>(key.wrapping_add(GROUP * k.row), dp) }
            }
        }
        for row in (0..rows).step_by(TILE) {
            // SAFETY: the caller's.
            unsafe {
                let q = q.add(row * dp);
                let scores = scores.add(row * width + first);
                match rows - row {
                    1 => dots::<V, 1, 8>((q, dp), group, &mut lanes),
                    2 => dots::<V, 2, 4>((q, dp), group, &mut lanes),
                    3 => dots::<V, 3, 4>((q, dp), group, &mut lanes),
                    _ => dots::<V, 4, 2>((q, dp), group, &mut lanes),
                }
                for row in 0..TILE.min(rows - row) {
                    let lanes = lanes[row * GROUP * V::LANES..].as_ptr();
                    add_up::<V>(lanes, scores.add(row * width));
                }
            }
        }
    }
}

/// The products of R rows and a group of keys, J at a time, as vectors whose lanes are still to be
/// added up.
///
/// # Safety
///
/// As for [`score`]; J divides the group.
#[inline(always)]
unsafe fn dots<V: Vector, const R: usize, const J: usize>(
    (q, dp): (*const V::Scalar, usize),
    k: [*const V::Scalar; GROUP],
    lanes: &mut [V::Scalar; TILE * GROUP * MAX_LANES],
) {
    // SAFETY: the caller's; `lanes` has a vector for each row and key.
    unsafe {
        for first in (0..GROUP).step_by(J) {
            let keys: [*const V::Scalar; J] = std::array::from_fn(|j| k[first + j]);
            let mut sums = [[V::splat(V::Scalar::zero()); J]; R];
            for c in (0..dp).step_by(V::LANES) {
                let q: [V; R] = std::array::from_fn(|row| V::load(q.add(row * dp + c)));
                for (j, key) in keys.into_iter().enumerate() {
                    let key = V::load(key.add(c));
                    for (sums, q) in sums.iter_mut().zip(q) {
                        sums[j] = q.mul_add(key, sums[j]);
                    }
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let at = (row * GROUP + first + j) * V::LANES;
                    sum.store(lanes.as_mut_ptr().add(at));
                }
            }
        }
    }
}

/// Writes the sum of the lanes of each of a group's vectors, where the score there is not below 0.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there are a group of vectors and of scores.
#[inline(always)]
unsafe fn add_up<V: Vector>(lanes: *const V::Scalar, scores: *mut V::Scalar) {
    let mut turned = [V::Scalar::zero(); MAX_LANES * MAX_LANES];
    let zero = V::Scalar::zero();
    // SAFETY: the caller's.
    unsafe {
        for at in (0..GROUP).step_by(V::LANES) {
            V::transpose(lanes.add(at * V::LANES), V::LANES, turned.as_mut_ptr(), V::LANES);
            let mut sums = [V::splat(zero); 2];
            for lane in 0..V::LANES {
                let x = V::load(turned.as_ptr().add(lane * V::LANES));
                sums[lane % 2] = sums[lane % 2].add(x);
            }
            let place = scores.add(at);
            let shown = V::load(place);
            shown.if_less(V::splat(zero), shown, sums[0].add(sums[1])).store(place);
        }
    }
}

/// Turns a row of scores, in whole groups, into weights relative to their maximum. Gives that and the
/// total.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn weigh<V: Vector>(scores: &mut [V::Scalar]) -> (V::Scalar, V::Scalar) {
    let (zero, nothing) = (V::Scalar::zero(), V::Scalar::neg_infinity());
    let mut lanes = [nothing; MAX_LANES];
    // SAFETY: the instruction set is the caller's; the chunks are whole vectors.
    unsafe {
        let mut max = [V::splat(nothing); 2];
        for (i, scores) in scores.chunks_exact(V::LANES).enumerate() {
            // A NaN is passed over here, and reaches the total through its weight.
            max[i % 2] = V::load(scores.as_ptr()).max(max[i % 2]);
        }
        max[0].max(max[1]).store(lanes.as_mut_ptr());
        let max = lanes[..V::LANES].iter().fold(nothing, |max, &x| max.max(x));
        // Where nothing is visible, −∞ − −∞ would be NaN.
        let base = V::splat(if max == nothing { zero } else { max });
        let mut sum = V::splat(zero);
        for scores in scores.chunks_exact_mut(V::LANES) {
            let weight = exp_of_negative(V::load(scores.as_ptr()).sub(base));
            weight.store(scores.as_mut_ptr());
            sum = sum.add(weight);
        }
        sum.store(lanes.as_mut_ptr());
        (max, lanes[..V::LANES].iter().fold(zero, |sum, &x| sum + x))
    }
}
