//! Where the gradients of a head go.

use super::super::Sizes;
use super::{Group, Head};
use crate::element::Float;
use num_traits::{Float as _, Zero};
use std::f64::consts::LOG2_E;

impl<E: Float> Head<'_, E> {
    /// What is not visited has the gradient 0.
    pub(super) fn clear_scores(&self, group: &Group<E::Wide>) {
        if let Some(to) = self.to.scores {
            for at in group.queries.start * self.sizes.keys..group.queries.end * self.sizes.keys {
                // SAFETY: the outputs have a row of all keys for each of the head's queries.
                unsafe { to.add(at).write(E::default()) }
            }
        }
    }

    /// Writes what belongs to the group's queries, and adds what belongs to sinks and relative values.
    pub(super) fn finish(&mut self, group: &Group<E::Wide>, dp: usize) {
        let Sizes { d, dv, entries, .. } = self.sizes;
        let scale = E::Wide::from_f64(self.forward.settings.scale);
        let first = group.queries.start;
        // SAFETY: the outputs have a row for each of the head's queries.
        unsafe {
            let to = self.to.q.add(first * self.to.rows[0]);
            write((to, self.to.rows[0]), group.d_q, (group.queries.len(), d, dp), scale);
        }
        let (mask, head) = (self.forward.mask, self.place.head);
        // Scores are without sinks.
        let sinks = mask.sinks.iter().zip(&self.small.sinks);
        for ((sinks, range), log_sums) in sinks.zip(self.log_sums.iter().cycle()) {
            let sink = sinks.data[sinks.layout.offset + head * sinks.layout.strides[0]].wide();
            for (i, query) in group.queries.clone().enumerate() {
                let [max, log] = log_sums.map(|part| part[query]);
                let weight = (sink * E::Wide::from_f64(LOG2_E) - max - log).exp2();
                if !weight.is_zero() && sink != E::Wide::neg_infinity() {
                    self.sums[range.start] -= weight * group.delta[i];
                }
            }
        }
        if let Some(to) = self.to.products {
            for (i, query) in group.queries.clone().enumerate() {
                for t in 0..entries {
                    let d = E::narrow(group.d_scores[t * group.width + i] * scale);
                    // SAFETY: the outputs have a row of all entries for each of the head's queries.
                    unsafe { to.add(query * entries + t).write(d) }
                }
            }
        }
        if self.small.values.is_empty() {
            return;
        }
        let sums = &mut self.sums[self.small.values.clone()];
        for (i, query) in group.queries.clone().enumerate() {
            let d_out = self.d_out.from(query, 0);
            for t in 0..entries {
                let weight = group.weights[t * group.width + i];
                for c in (0..dv).filter(|_| !weight.is_zero()) {
                    sums[t * dv + c] += weight * d_out.data[d_out.at + c * d_out.column].wide();
                }
            }
        }
    }
}

/// Writes rows of `n` columns, which lie `row` apart, times a factor, to rows `to_row` apart.
///
/// # Safety
///
/// There is room for them at `to`.
pub(super) unsafe fn write<E: Float>(
    (to, to_row): (*mut E, usize),
    from: &[E::Wide],
    (rows, n, row): (usize, usize, usize),
    factor: E::Wide,
) {
    for i in 0..rows {
        for (c, &x) in from[i * row..][..n].iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { to.add(i * to_row + c).write(E::narrow(x * factor)) }
        }
    }
}
