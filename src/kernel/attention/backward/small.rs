//! The gradients of what is small: tables by distance, slopes, sinks, relative values. A piece of work has
//! sums of its own, which are added up in the order of the pieces.

use super::{Forward, Sizes};
use crate::element::Float;
use crate::kernel::attention::mask::Mask;
use num_traits::Zero;
use std::ops::Range;

/// Where a piece keeps the sums of what belongs to its head or to all.
pub(super) struct Small {
    pub(super) distances: Vec<Range<usize>>,
    pub(super) slopes: Vec<Range<usize>>,
    pub(super) sinks: Vec<Range<usize>>,
    /// The relative values, [T, Dv].
    pub(super) values: Range<usize>,
    /// At least 1, so that each piece has a chunk.
    pub(super) len: usize,
}

impl Small {
    pub(super) fn of<E: Float>(forward: &Forward<E>, sizes: Sizes) -> Self {
        let mut end = 0;
        let mut next = |len: usize| {
            let range = end..end + len;
            end += len;
            range
        };
        let mask = forward.mask;
        let distances = mask.distances.iter().map(|x| next(x.table.layout.dims[1])).collect();
        let slopes = mask.slopes.iter().map(|_| next(1)).collect();
        let sinks = mask.sinks.iter().map(|_| next(1)).collect();
        let values = forward.settings.relative_values().map_or(0, |_| sizes.entries * sizes.dv);
        let values = next(values);
        Small { distances, slopes, sinks, values, len: end.max(1) }
    }

    /// Adds what a block's dS gives to tables by distance and to slopes. The block has a row of the queries'
    /// numbers for each key, `width` long.
    pub(super) fn add<E: Float>(
        &self,
        sums: &mut [E::Wide],
        mask: &Mask<E>,
        (batch, queries, keys): (usize, Range<usize>, Range<usize>),
        (width, d_scores): (usize, &[E::Wide]),
    ) {
        // Keys that are extra have neither.
        let own = keys.start.max(mask.extra)..keys.end.max(mask.extra);
        for (i, query) in queries.enumerate() {
            let d = |key: usize| d_scores[(key - keys.start) * width + i];
            for (x, range) in mask.distances.iter().zip(&self.distances) {
                let position = x.offset.position(batch, query);
                for key in own.clone().filter(|_| !range.is_empty()) {
                    sums[range.start + x.entry(position, key - mask.extra)] += d(key);
                }
            }
            for (x, range) in mask.slopes.iter().zip(&self.slopes) {
                let position = x.offset.position(batch, query);
                for key in own.clone() {
                    let key_position = (key - mask.extra).cast_signed();
                    let distance = key_position.saturating_sub(position).unsigned_abs();
                    #[allow(clippy::cast_precision_loss, reason = "no sequence has 2⁵³ positions")]
                    let distance = E::Wide::from_f64(distance as f64);
                    sums[range.start] -= d(key) * distance;
                }
            }
        }
    }

    /// What belongs to each head, summed over the batch.
    pub(super) fn by_head<E: Float>(
        &self,
        range: &Range<usize>,
        smalls: &[E::Wide],
        sizes: Sizes,
    ) -> Vec<E> {
        let part = |piece: usize| &smalls[piece * self.len..][range.clone()];
        let of = |(h, i): (usize, usize)| {
            let each = (0..sizes.batch).map(|b| part(b * sizes.heads + h)[i]);
            E::narrow(each.fold(E::Wide::zero(), |sum, x| sum + x))
        };
        (0..sizes.heads).flat_map(|h| (0..range.len()).map(move |i| (h, i))).map(of).collect()
    }

    /// The relative values, summed over all pieces.
    pub(super) fn of_all<E: Float>(&self, smalls: &[E::Wide]) -> Vec<E> {
        let of = |i: usize| {
            let each = smalls.chunks_exact(self.len).map(|small| small[i]);
            E::narrow(each.fold(E::Wide::zero(), |sum, x| sum + x))
        };
        self.values.clone().map(of).collect()
    }
}
