//! Attention of few queries: a step of decoding, which has one query, or the handful of tokens that a
//! draft proposed.
//!
//! With so few queries the arithmetic is nothing beside reading K and V once, so everything follows
//! the keys. The query heads that share a key/value head, and their queries, are the rows of one pass
//! over it: what is read serves all of them. The keys are cut into chunks of a fixed size; a chunk
//! gives each row a maximum, a sum of weights and a weighted sum of V ([`pass`]), and the chunks of a
//! row are put together in ascending order at the end:
//!
//! out = Σ exp(maxᵢ − max) · sumᵢ / Σ exp(maxᵢ − max) · totalᵢ
//!
//! So one long sequence is shared by many threads, and the result is the same for every number of
//! them. Chunks start at multiples of their size, not at shares of the length: keys that are hidden at
//! the end, as in a cache with room to spare, change no bit.
//!
//! The sums here run in another order than those of the blocks of many queries: a query alone and the
//! same query in a longer pass agree within rounding, not bit for bit. Which of the two ways is taken
//! depends on the number of queries and on what else is wanted, never on how many threads there are.

mod lines;
mod pass;
mod scores;
mod values;

use super::Settings;
use super::mask::Mask;
use crate::element::Float;
use crate::kernel::layout::{View, count};
use crate::kernel::parallel::for_each_chunk;
use crate::kernel::scratch::{Spare, padded};
use crate::kernel::simd::{Isa, Lanes, MAX_LANES};
use num_traits::{Float as _, Zero};
use pass::{Pass, Rows};

/// The most queries for which this is the faster way: measured, for keys that are in the cache and
/// heads that share nothing. (Where they do, or where memory is what is waited for, it still is with
/// more.)
pub(super) const FEW: usize = 8;
/// Keys that make a pass.
const CHUNK: usize = 512;
/// Rows of a pass: as many as find room for their weights in the first-level cache.
const ROWS: usize = 16;
/// Multiplications below which passes are not worth handing over one by one: some 25 µs.
const PIECE: usize = 1 << 17;
/// Rows of the output that are finished in one piece, and columns of them at a time.
const FINISHED: usize = 256;
const COLUMNS: usize = 64;

/// What [`attention`](super::attention) says, for views and an output that are checked and where the
/// output is not empty.
pub(super) fn attention_of_few<E: Float>(
    isa: Isa,
    views @ [q, k, v]: [View<E>; 3],
    settings: &Settings<E>,
    mask: &Mask<E>,
    out: &mut [E],
) {
    let [batch, heads, queries, d] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
    let [groups, keys] = [1, 2].map(|axis| k.layout.dims[axis]);
    let dv = v.layout.dims[3];
    let rows = heads / groups * queries;
    let (chunks, blocks) = (keys.div_ceil(CHUNK), rows.div_ceil(ROWS));
    // Of a row: its sums in whole vectors, the maximum, the total.
    let sums = dv.next_multiple_of(MAX_LANES);
    let row = padded::<E::Wide>(sums + 2);
    let each = rows.min(ROWS) * row;
    let mut partial = Spare::take(count(&[batch, groups, chunks, blocks, each]));
    let multiplications = rows.min(ROWS) * keys.min(CHUNK) * (d + dv).max(1);
    let together = PIECE.div_ceil(multiplications.max(1));
    let work = count(&[batch, heads, queries]).saturating_mul(keys).saturating_mul(d + dv + 8);
    for_each_chunk(&mut partial, together * each, work, |piece, partial| {
        for (i, partial) in partial.chunks_exact_mut(each).enumerate() {
            let i = piece * together + i;
            let (i, block) = (i / blocks, i % blocks * ROWS);
            // One head after the other for each chunk: where heads lie side by side, they share pages.
            let (i, group) = (i / groups, i % groups);
            let (b, first) = (i / chunks, i % chunks * CHUNK);
            let rows = Rows {
                batch: b,
                head: group * (heads / groups),
                queries,
                range: block..rows.min(block + ROWS),
            };
            E::Wide::vectorized(
                isa,
                Pass {
                    views,
                    group,
                    rows,
                    keys: first..keys.min(first + CHUNK),
                    all: keys,
                    d,
                    dv,
                    settings,
                    mask,
                    partial,
                    row,
                    sums,
                },
            );
        }
    });
    let work = out.len().saturating_mul(chunks + 1);
    for_each_chunk(out, FINISHED * dv, work, |piece, out| {
        for (i, out) in out.chunks_exact_mut(dv).enumerate() {
            let i = piece * FINISHED + i;
            let (i, head) = (i / heads, i % heads);
            let (b, query) = (i / queries, i % queries);
            let (group, place) =
                (head / (heads / groups), head % (heads / groups) * queries + query);
            let of_chunk = |chunk| {
                let pass = ((b * chunks + chunk) * groups + group) * blocks + place / ROWS;
                let (sums, rest) = partial[pass * each + place % ROWS * row..].split_at(sums);
                (rest[0], rest[1], sums)
            };
            combine(mask.sink(head), (0..chunks).map(of_chunk), out);
        }
    });
}

/// Puts the maximum, the total and the sums of a row's chunks together, and those of its sinks.
fn combine<'a, E: Float>(
    sink: (E::Wide, E::Wide),
    chunks: impl Iterator<Item = (E::Wide, E::Wide, &'a [E::Wide])> + Clone,
    out: &mut [E],
) {
    let zero = E::Wide::zero();
    let max = chunks.clone().fold(sink.0, |max, (of_chunk, ..)| max.max(of_chunk));
    // Where nothing is visible, −∞ − −∞ would be NaN.
    let base = if max == E::Wide::neg_infinity() { zero } else { max };
    let of_sinks = (sink.0 - base).exp() * sink.1;
    let scaled = chunks.map(|(max, total, sums)| ((max - base).exp(), total, sums));
    for (block, out) in out.chunks_mut(COLUMNS).enumerate() {
        let (mut total, mut columns) = (of_sinks, [zero; COLUMNS]);
        for (factor, of_chunk, sums) in scaled.clone() {
            total += factor * of_chunk; // NaN where a visible score is: 0 · NaN keeps it
            if factor != zero {
                let sums = &sums[block * COLUMNS..];
                columns.iter_mut().zip(sums).for_each(|(sum, &x)| *sum += factor * x);
            }
        }
        for (out, sum) in out.iter_mut().zip(columns) {
            *out = E::narrow(if total == zero { zero } else { sum / total });
        }
    }
}
