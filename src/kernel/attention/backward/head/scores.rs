//! From the products of a block to its weights, and to the gradients of its scores.

use super::super::Given;
use super::{Block, Group, Head};
use crate::element::{Float, Real};
use crate::kernel::attention::head_mask::{HeadMask, Visible};
use crate::kernel::attention::rows_of;
use crate::kernel::exp::exp2_of_negative;
use crate::kernel::layout::View;
use crate::kernel::simd::Vector;
use crate::kernel::tile::columns;
use num_traits::{Float as _, Zero};
use std::f64::consts::LOG2_E;
use std::ops::Range;

impl<E: Float> Head<'_, E> {
    /// Takes a block's products to scores, as the forward pass does, and keeps what the cap gave.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn settle<V: Vector<Scalar = E::Wide>>(
        &self,
        mask: &HeadMask<E>,
        visible: Visible,
        first: usize,
        scores: &mut [E::Wide],
        capped: &mut [E::Wide],
    ) {
        // SAFETY: the caller's.
        unsafe { mask.finish_products::<V>(self.forward.settings, first, scores) }
        if let Some(capped) = capped.get_mut(..scores.len()) {
            capped.copy_from_slice(scores);
        }
        mask.apply::<V>(visible, first, scores);
        if visible != Visible::All {
            // Beyond the bounds lies what was there before.
            mask.hide_beyond_bounds(columns::<V>(), scores);
        }
    }

    /// Turns scores into weights P, and dP into dS; the weights in the block become those after dropout.
    ///
    /// # Safety
    ///
    /// As [`group`](Self::group).
    #[inline(always)]
    pub(super) unsafe fn differentiate<V: Vector<Scalar = E::Wide>>(
        &self,
        group: &mut Group<E::Wide>,
        keys: Range<usize>,
        block: &mut Block<E::Wide>,
    ) {
        let (width, settings) = (group.width, self.forward.settings);
        if settings.relative_values().is_some() {
            self.add_products_of_values(group, keys.clone(), block.d_scores);
        }
        if let Given::Weights(d, _) = self.given {
            let take = |_, d| d;
            self.read_block(group, (d, keys.clone()), (block.scores, block.d_scores), take);
        }
        let (place, queries) = ((self.place, self.forward.mask.first), group.queries.clone());
        if let Some(dropout) = settings.dropout {
            let at = (queries.clone(), keys.clone());
            dropout.drop_block(place, at, width, block.d_scores);
        }
        let rows = block.scores.chunks_exact_mut(width).zip(block.d_scores.chunks_exact_mut(width));
        for (scores, d_scores) in rows.take(keys.len()) {
            for at in (0..width).step_by(2 * V::LANES) {
                // SAFETY: the instruction set is the caller's; rows have whole tiles of columns.
                unsafe {
                    let places = [at, at + V::LANES];
                    let load = |from: &[E::Wide]| places.map(|at| V::load(from[at..].as_ptr()));
                    let (x, max, log) = (load(scores), load(group.maxima), load(group.log_sums));
                    let weights = exp2_of_negative([0, 1].map(|i| x[i].sub(max[i]).sub(log[i])));
                    let (d_weights, delta) = (load(d_scores), load(group.delta));
                    let least = V::splat(E::Wide::min_positive_value());
                    for (i, at) in places.into_iter().enumerate() {
                        let d = weights[i].mul(d_weights[i].sub(delta[i]));
                        // 0 · NaN would be NaN; a weight of NaN is not less.
                        let d = weights[i].if_less(least, V::splat(E::Wide::zero()), d);
                        weights[i].store(scores[at..].as_mut_ptr());
                        d.store(d_scores[at..].as_mut_ptr());
                    }
                }
            }
        }
        if let Some(dropout) = settings.dropout {
            dropout.drop_block(place, (queries.clone(), keys.clone()), width, block.scores);
        }
        if group.tainted.contains(&true) {
            taint(group, &mut block.scores[..keys.len() * width]);
        }
        if let Some(relative) = settings.relative.as_ref().filter(|x| x.values.is_some()) {
            let (batch, at) = (self.place.batch, (queries, keys));
            relative.add_by_entry(batch, at, width, block.scores, group.weights);
        }
    }

    /// Takes what is given for the scores in the place of dS; what is hidden has 0. No weight is needed.
    pub(super) fn take_scores(
        &self,
        group: &Group<E::Wide>,
        d: View<E>,
        keys: Range<usize>,
        block: &mut Block<E::Wide>,
    ) {
        let hidden = E::Wide::neg_infinity();
        let take = |score, d| if score == hidden { E::Wide::zero() } else { d };
        self.read_block(group, (d, keys), (block.scores, block.d_scores), take);
    }

    /// Writes to a block what `take` makes of each score and its number in a view over [B, H, Q, K].
    fn read_block(
        &self,
        group: &Group<E::Wide>,
        (from, keys): (View<E>, Range<usize>),
        (scores, to): (&[E::Wide], &mut [E::Wide]),
        take: impl Fn(E::Wide, E::Wide) -> E::Wide,
    ) {
        let (b, h) = self.place.index();
        let from = rows_of(from, b, h);
        for (i, query) in group.queries.clone().enumerate() {
            let row = from.from(query, 0);
            for (j, key) in keys.clone().enumerate() {
                let place = j * group.width + i;
                to[place] = take(scores[place], row.data[row.at + key * row.column].wide());
            }
        }
    }

    /// Hands on what belongs to the scores, and takes dS to before the cap.
    pub(super) fn finish_scores(
        &mut self,
        group: &mut Group<E::Wide>,
        keys: Range<usize>,
        block: &mut Block<E::Wide>,
    ) {
        let (width, queries) = (group.width, group.queries.clone());
        let d_scores = &mut block.d_scores[..keys.len() * width];
        if let Some(to) = self.to.scores {
            for (i, query) in queries.clone().enumerate() {
                for (j, key) in keys.clone().enumerate() {
                    let d = E::narrow(d_scores[j * width + i]);
                    // SAFETY: the outputs have a row of all keys for each of the head's queries.
                    unsafe { to.add(query * self.sizes.keys + key).write(d) }
                }
            }
        }
        let (mask, at) = (self.forward.mask, (self.place.batch, queries.clone(), keys.clone()));
        self.small.add(self.sums, mask, at, (width, d_scores));
        if let Some(cap) = self.forward.settings.softcap {
            let factor = E::Wide::from_f64(1.0 / (cap * LOG2_E));
            for (d, &capped) in d_scores.iter_mut().zip(&*block.capped) {
                let tanh = capped * factor;
                *d = if d.is_zero() { *d } else { *d * (E::Wide::from_f64(1.0) - tanh * tanh) };
            }
        }
        if let Some(relative) = &self.forward.settings.relative {
            let (batch, at) = (self.place.batch, (queries, keys));
            relative.add_by_entry(batch, at, width, d_scores, group.d_scores);
        }
    }

    /// dP has dO · value of the key's relative position too.
    fn add_products_of_values(
        &self,
        group: &Group<E::Wide>,
        keys: Range<usize>,
        d_scores: &mut [E::Wide],
    ) {
        let Some(relative) = &self.forward.settings.relative else { return };
        for (i, query) in group.queries.clone().enumerate() {
            let position = relative.offset.position(self.place.batch, query);
            for (j, key) in keys.clone().enumerate() {
                let t = relative.entry(position, key);
                d_scores[j * group.width + i] += group.products[t * group.width + i];
            }
        }
    }
}

/// Makes those weights NaN that bring a gradient of the output that is not finite to a value.
#[inline(never)]
fn taint<R: Real>(group: &Group<R>, weights: &mut [R]) {
    for row in weights.chunks_exact_mut(group.width) {
        for (weight, &tainted) in row.iter_mut().zip(&group.tainted) {
            if tainted && !weight.is_zero() {
                *weight = R::nan();
            }
        }
    }
}
