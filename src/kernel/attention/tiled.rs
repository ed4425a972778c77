//! The two products of a piece of bfloat16 in tiles ([`tiles`]).
//!
//! Scores lie key by key, as with vectors: rows of K are the left-hand side, queries the columns, so the
//! softmax between is the same. The weights are rounded to bfloat16 with two keys side by side, which is
//! the order of a right-hand side; values are transposed, once a block for all groups of queries. So the
//! sums have a row for each column of V, until the end turns them.
//!
//! Tiles are held from product to product, except where a mask calls what may use tiles itself.

use super::block::Attend;
use super::head_mask::HeadMask;
use super::running::{Group, Scratch};
use crate::element::{Float, Real};
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::Isa;
use crate::kernel::tiles::{self, DEPTH, Panels, SIZE, Tiles, depth};
use num_traits::Zero;
use std::f64::consts::LOG2_E;
use std::ops::Range;

/// Keys in a block.
pub(super) const KEYS: usize = 3 * DEPTH;

/// What tiles read and write, all packed for them.
pub(super) struct Tiled<E: Float> {
    isa: Isa,
    tiles: Option<Tiles>,
    /// The lengths of what `packed` holds: panels of queries, a block of keys, one of values transposed,
    /// panels of a group's weights.
    lens: [usize; 4],
    packed: Spare<E>,
    turned: Spare<E::Wide>,
    /// D, and Dv, filled up.
    d: usize,
    dv: usize,
    /// Whether all products were in the range of f32: a scale may bring back what was not.
    finite: bool,
}

impl<E: Float> Tiled<E> {
    /// Packs the queries of a piece. There are as many in all, in a group, and keys in a block.
    pub(super) fn new(isa: Isa, piece: &Attend<E>, [width, group, block]: [usize; 3]) -> Self {
        let (d, dv) = (depth(piece.d), piece.dv.next_multiple_of(SIZE[0]));
        let keys = block.next_multiple_of(SIZE[0]);
        let lens = [width * d, keys * d, dv * keys, keys * group];
        let mut packed = Spare::take(lens.map(padded::<E>).iter().sum());
        let [q, ..] = parts(&mut packed, lens);
        for (panel, to) in q.chunks_exact_mut((SIZE[1] * d).max(1)).enumerate() {
            let first = panel * SIZE[1];
            let queries = SIZE[1].min(piece.queries.len().saturating_sub(first));
            let from = piece.q.from(first.min(piece.queries.len()), 0).transposed();
            tiles::pack_panel(isa, from, (piece.d, queries), to);
        }
        let turned = Spare::take(dv * group);
        Tiled { isa, tiles: None, lens, packed, turned, d, dv, finite: true }
    }

    /// Gives the tiles back until the next product.
    pub(super) fn release(&mut self) {
        self.tiles = None;
    }

    /// Packs a block of keys and values.
    #[inline(always)]
    pub(super) fn load(&mut self, piece: &Attend<E>, keys: Range<usize>) {
        let (isa, depth_of_d, dv, count) = (self.isa, self.d, self.dv, keys.len());
        let [_, k, v, _] = parts(&mut self.packed, self.lens);
        let k = &mut k[..count.next_multiple_of(SIZE[0]) * depth_of_d];
        tiles::copy_rows(isa, piece.k.from(keys.start, 0), (count, piece.d), k);
        let v = &mut v[..dv * depth(count)];
        tiles::pack_transposed(isa, piece.v.from(keys.start, 0), (count, piece.dv), v);
    }

    /// The scores of a group with the block of keys, a row for each.
    #[inline(always)]
    pub(super) fn score(
        &mut self,
        piece: &Attend<E>,
        group: &Group<E>,
        scores: &mut [E::Wide],
        keys: usize,
    ) {
        let (d, width) = (self.d, group.width);
        let [q, k, ..] = parts(&mut self.packed, self.lens);
        let size = |panel| [bound(&group.mask, panel, keys), d];
        let panels = &q[group.queries.start * d..];
        let of = Panels { rows: k, panels, depth: d, size: &size };
        held(&mut self.tiles, self.isa).multiply(of, scores, width, false);
        let (zero, scale) = (E::Wide::zero(), E::Wide::from_f64(piece.settings.scale * LOG2_E));
        // 0 as long as all are finite, else NaN.
        let mut probes = [zero; SIZE[1]];
        for panel in 0..width / SIZE[1] {
            for row in scores.chunks_exact_mut(width).take(bound(&group.mask, panel, keys)) {
                let row = &mut row[panel * SIZE[1]..][..SIZE[1]];
                for (score, probe) in row.iter_mut().zip(&mut probes) {
                    *probe += *score * zero;
                    *score *= scale;
                }
            }
        }
        self.finite &= probes.iter().all(|probe| *probe == zero);
    }

    /// Whether all products were in the range of f32.
    pub(super) fn is_finite(&self) -> bool {
        self.finite
    }

    /// Scales a group's sums to its new maxima, and adds weights · V of the block.
    #[inline(always)]
    pub(super) fn add_values(
        &mut self,
        group: &mut Group<E>,
        scratch: &mut Scratch<E::Wide>,
        keys: usize,
    ) {
        let (isa, dv, width) = (self.isa, self.dv, group.width);
        if !group.fresh {
            scale_columns(group.sums, scratch.factor, width);
        }
        let [_, _, v, weights] = parts(&mut self.packed, self.lens);
        tiles::pack_rounded(isa, scratch.scores, (keys, width), weights);
        let size = |panel| [dv, bound(&group.mask, panel, keys)];
        let of = Panels { rows: v, panels: weights, depth: depth(keys), size: &size };
        held(&mut self.tiles, isa).multiply(of, group.sums, width, !group.fresh);
    }

    /// Turns a group's sums, so that they have a row for each query.
    #[inline(always)]
    pub(super) fn turn(&mut self, group: &mut Group<E>) {
        let (dv, width) = (self.dv, group.width);
        let turned = &mut self.turned[..dv * width];
        turned.copy_from_slice(group.sums);
        for (query, row) in group.sums.chunks_exact_mut(dv.max(1)).enumerate() {
            let column = turned[query..].iter().step_by(width);
            row.iter_mut().zip(column).for_each(|(to, &sum)| *to = sum);
        }
    }
}

fn parts<E: Float>(packed: &mut [E], lens: [usize; 4]) -> [&mut [E]; 4] {
    let mut rest = packed;
    lens.map(|len| split(&mut rest, len))
}

/// The tiles of a piece, taken where it does not hold them.
fn held(tiles: &mut Option<Tiles>, isa: Isa) -> &Tiles {
    // SAFETY: between two products of the piece, only the mask calls what this crate does not know, and
    // `release` comes before.
    tiles.get_or_insert_with(|| unsafe { Tiles::hold(isa) })
}

/// How many of a block's keys the queries of a panel may see.
#[inline(always)]
fn bound<E: Float>(mask: &HeadMask<E>, panel: usize, keys: usize) -> usize {
    mask.bound(panel * SIZE[1]..(panel + 1) * SIZE[1], keys)
}

/// Scales each column of rows of `width` sums down to a maximum that has risen.
#[inline(always)]
fn scale_columns<R: Real>(sums: &mut [R], factor: &[R], width: usize) {
    let factor = &factor[..width];
    if factor.iter().all(|&factor| factor == R::one()) {
        return;
    }
    for sums in sums.chunks_exact_mut(width) {
        for (sum, &factor) in sums.iter_mut().zip(factor) {
            // 0 · ∞ would be NaN.
            *sum = if factor == R::zero() { factor } else { *sum * factor };
        }
    }
}
