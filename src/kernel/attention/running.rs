//! The softmax of a block of queries while the keys pass by: a running maximum and a running sum for
//! each query, and the factor by which a risen maximum scales down what was summed before it.

use super::mask::HeadMask;
use crate::element::Float;
use crate::kernel::exp::exp_of_negative;
use crate::kernel::simd::{MAX_LANES, Vector};
use crate::kernel::tile::columns;
use num_traits::{Float as _, One, Zero};

/// Scratch, all of it wide. Rows over queries have `width` places.
pub(super) struct State<'s, R> {
    pub(super) width: usize,
    /// Qᵀ · scale in panels of a tile's columns.
    pub(super) q: &'s mut [R],
    /// A row for each key of the block: scores, then weights that are not yet divided by their sum.
    pub(super) scores: &'s mut [R],
    /// A row of Dv, padded to whole tiles, for each query.
    pub(super) sums: &'s mut [R],
    /// For each query: the maximum so far, the sum of weights, and what the last block scaled by.
    pub(super) max: &'s mut [R],
    pub(super) total: &'s mut [R],
    pub(super) factor: &'s mut [R],
    /// A block of V in panels of a tile's columns.
    pub(super) v: &'s mut [R],
    /// The keys of a block, where they must be converted.
    pub(super) k: &'s mut [R],
}

/// Turns the scores of a block into weights relative to the running maximum. Gives whether any is 0.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn update<V: Vector, E: Float<Wide = V::Scalar>>(
    state: &mut State<V::Scalar>,
    keys: usize,
    mask: &HeadMask<E>,
) -> bool {
    let width = state.width;
    let mut weightless = false;
    // SAFETY: the instruction set is the caller's.
    let mut least = unsafe { V::splat(V::Scalar::one()) };
    for panel in (0..width).step_by(columns::<V>()) {
        let bound = mask.bound(panel..panel + columns::<V>(), keys);
        // SAFETY: the instruction set is the caller's; the panel lies within rows of `width`.
        unsafe {
            let [first, second] = [panel, panel + V::LANES];
            let bases = [raise::<V>(state, first, bound), raise::<V>(state, second, bound)];
            let mut sums = [V::splat(V::Scalar::zero()); 2];
            let mut place = state.scores[first..].as_mut_ptr();
            for _ in 0..bound {
                for (i, (sum, base)) in sums.iter_mut().zip(bases).enumerate() {
                    let place = place.add(i * V::LANES);
                    let weight = exp_of_negative(V::load(place).sub(base));
                    weight.store(place);
                    *sum = sum.add(weight);
                    least = weight.min(least); // a NaN is passed over
                }
                place = place.wrapping_add(width);
            }
            for (at, sum) in [first, second].into_iter().zip(sums) {
                let total = state.total[at..].as_mut_ptr();
                let factor = V::load(state.factor[at..].as_ptr());
                V::load(total).mul_add(factor, sum).store(total);
            }
        }
        // Beyond the bound lies what was there before; a tile of the product with V may also have
        // rows of the next panel, and read as far as that one's bound.
        for row in state.scores[bound * width..keys * width].chunks_exact_mut(width) {
            row[panel..panel + columns::<V>()].fill(V::Scalar::zero());
        }
        weightless |= bound < keys;
    }
    let mut lanes = [V::Scalar::one(); MAX_LANES];
    // SAFETY: the instruction set is the caller's; no vector has more lanes.
    unsafe { least.store(lanes.as_mut_ptr()) };
    weightless || lanes.contains(&V::Scalar::zero())
}

/// Raises the running maxima at `at` to those of `bound` keys, and keeps the factor that the sums so
/// far must be scaled by. Gives what is to be subtracted from the scores.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `at` is at least `LANES` places before `width`.
#[inline(always)]
unsafe fn raise<V: Vector>(state: &mut State<V::Scalar>, at: usize, bound: usize) -> V {
    // SAFETY: the caller's, and there are scores for `bound` rows.
    unsafe {
        let zero = V::splat(V::Scalar::zero());
        let nothing = V::splat(V::Scalar::neg_infinity());
        let old = V::load(state.max[at..].as_ptr());
        let mut max = old;
        let mut place = state.scores[at..].as_ptr();
        for _ in 0..bound {
            // A NaN is passed over here, and reaches the total through its weight.
            max = V::load(place).max(max);
            place = place.wrapping_add(state.width);
        }
        max.store(state.max[at..].as_mut_ptr());
        // Where nothing is visible yet, −∞ − −∞ would be NaN.
        let base = nothing.if_less(max, max, zero);
        exp_of_negative(old.sub(base)).store(state.factor[at..].as_mut_ptr());
        base
    }
}
