//! One head's attention for a few queries, on one thread.
//!
//! The keys are visited block by block with a running maximum and sum for each query, so the scores
//! of one block are all that exists. The queries are cut into groups, whose scores with a block lie
//! in the first-level cache; what a block of keys costs to fetch and to pack is shared by the groups.
//! Scores are laid out key by key: the product K · Qᵀ has vectors of queries as its columns, so
//! maxima, exponentials and sums need no step across lanes, and the weights come out in the order in
//! which the product with V reads its left-hand side. Only the queries are transposed, once; keys and
//! values are read where they lie or copied ([`operand`](super::operand)).
//!
//! When a block raises a query's maximum, what was summed so far is scaled down to it. Blocks that no
//! query of a group sees are left out. Hidden scores are −∞ before the maximum is taken, so their
//! weights are exactly 0. Where V holds NaN or infinities, 0 times them is NaN: only where an output
//! is not finite is the work done again, carefully ([`values`](super::values)).
//!
//! Runs of keys that no query of the piece may see are stepped over, so that a window or a few blocks of
//! a long sequence cost what they show.
//!
//! Where the weights are wanted, there is one group and one block, of all keys, whose weights are
//! written at the end.

use super::ahead::{Ahead, fetch, prefetch};
use super::head_mask::{HeadMask, Visible};
use super::mask::Mask;
use super::operand::Operand;
use super::running::{Group, Scratch, rescale, update};
use super::tiled::{self, Tiled};
use super::{Place, QUERIES, Settings, SumsAt};
use crate::element::Float;
use crate::kernel::gemm::{Matrix, pack_panel_wide};
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::{Isa, Kernel, Vector};
use crate::kernel::tile::{Tile, columns};
use crate::kernel::tiles;
use num_traits::Zero;
use std::f64::consts::LOG2_E;
use std::ops::Range;

/// Queries in a group, or a few more to fill a tile's columns: whole tiles of the usual sizes, both
/// as columns of the scores and as rows of the product with V.
const GROUP: usize = 48;
/// The least and the most queries of a group that is a block of a mask's.
const BLOCK: [usize; 2] = [32, 64];
/// The most groups of a piece.
pub(super) const GROUPS: usize = QUERIES[0] / GROUP;
/// Keys in a block: with them, the scores of a group take half of the first-level cache.
pub(super) const KEYS: usize = 96;

/// One head and a piece of its queries. The matrices are checked to lie within their buffers: `q` for
/// `queries` rows of `d` columns from its start, `k` and `v` for `keys` rows of `d` and of `dv`.
pub(super) struct Attend<'a, E: Float> {
    pub(super) q: Matrix<'a, E>,
    pub(super) k: Matrix<'a, E>,
    pub(super) v: Matrix<'a, E>,
    pub(super) queries: Range<usize>,
    pub(super) keys: usize,
    pub(super) d: usize,
    pub(super) dv: usize,
    pub(super) settings: &'a Settings<'a, E>,
    pub(super) mask: &'a Mask<'a, E>,
    pub(super) place: Place,
    /// `dv` elements for each query, `out_row` apart, written by this block alone.
    pub(super) out: *mut E,
    pub(super) out_row: usize,
    /// `keys` elements for each query, one row after the other, if wanted.
    pub(super) weights: Option<*mut E>,
    /// One for each query, if wanted.
    pub(super) sums_to: SumsAt<E>,
    /// What the next piece begins with.
    pub(super) ahead: Ahead<'a, E>,
    /// Whether the products are made in tiles, and by what.
    pub(super) tiled: Option<Isa>,
}

impl<E: Float> Kernel<E::Wide> for Attend<'_, E> {
    /// Whether the piece is done: tiles, which know no careful way, leave it where a product or an output is
    /// not finite.
    type Output = bool;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) -> bool {
        let step = columns::<V>();
        let width = self.queries.len().next_multiple_of(step);
        let keys = if self.tiled.is_some() { tiled::KEYS } else { KEYS };
        let (group, block) = match self.weights {
            None => (width.min(group(self.mask).next_multiple_of(step)), keys.min(self.keys)),
            Some(_) => (width, self.keys),
        };
        let mut tiled = self.tiled.map(|isa| Tiled::new(isa, &self, [width, group, block]));
        let entries = self.settings.relative_values().map_or(0, |values| values.layout.dims[0]);
        let dv = self.dv.next_multiple_of(step);
        let k = block * self.d;
        let buckets = width * entries;
        // Packed in another order for tiles, which fill up the rows of the scores.
        let [q, k, v, rows] = match tiled {
            None => [width * self.d, k, block * dv, block],
            Some(_) => [0, 0, 0, block.next_multiple_of(tiles::SIZE[0])],
        };
        let lens = [q, width * dv, width, width, rows * group, group, v, k, buckets];
        let mut spare = Spare::take(lens.map(padded::<E::Wide>).iter().sum());
        let mut rest = &mut spare[..];
        let [mut q, mut sums, mut max, mut total, scores, factor, v, k, mut buckets] =
            lens.map(|len| split(&mut rest, len));
        let mut scratch = Scratch { scores, factor, v, k };
        if tiled.is_none() {
            // SAFETY: the instruction set is the caller's, the matrices are as `Attend` says.
            unsafe { self.pack_queries::<V>(q) };
        }
        let mut groups: [_; GROUPS] = std::array::from_fn(|i| {
            let first = width.min(i * group);
            let width = group.min(width - first);
            let queries = self.queries.len().min(first)..self.queries.len().min(first + width);
            let range = self.queries.start + queries.start..self.queries.start + queries.end;
            Group {
                mask: HeadMask::new(self.mask, self.place.index(), range, width, self.keys),
                queries,
                width,
                q: if tiled.is_none() { cut(&mut q, width * self.d) } else { &mut [] },
                sums: cut(&mut sums, width * dv),
                max: cut(&mut max, width),
                total: cut(&mut total, width),
                buckets: cut(&mut buckets, width * entries),
                visible: Visible::Nothing,
                fresh: true,
            }
        });
        let groups = &mut groups[..width.div_ceil(group.max(1))];
        // SAFETY: the caller vouches for the instruction set, `Attend`'s maker for the matrices and
        // the outputs; the scratch is as long as `Group` and `Scratch` say.
        unsafe {
            for careful in [false, true] {
                let finite =
                    self.pass::<V>(groups, &mut scratch, (block.max(1), &mut tiled), careful);
                if finite || tiled.is_some() {
                    return finite;
                }
            }
        }
        true
    }
}

/// Cuts `count` elements off the front of a slice.
fn cut<'a, R>(slice: &mut &'a mut [R], count: usize) -> &'a mut [R] {
    slice.split_off_mut(..count).unwrap_or_default()
}

impl<E: Float> Attend<'_, E> {
    /// Visits all blocks of keys and writes the outputs. Gives whether all of them are finite.
    #[inline(always)]
    unsafe fn pass<V: Vector<Scalar = E::Wide>>(
        &self,
        groups: &mut [Group<E>],
        scratch: &mut Scratch<E::Wide>,
        (block, tiled): (usize, &mut Option<Tiled<E>>),
        careful: bool,
    ) -> bool {
        let (max, total) = self.sink();
        for group in &mut *groups {
            group.max.fill(max);
            group.total.fill(total);
            group.buckets.fill(E::Wide::zero());
            group.fresh = true;
        }
        let mut next = self.next(groups, 0, block);
        while !next.is_empty() {
            let keys = next;
            next = self.next(groups, keys.end, block);
            let mut seen = self.weights.is_some();
            for group in &mut *groups {
                group.visible = group.mask.look(keys.clone());
                seen |= group.visible != Visible::Nothing;
            }
            if !seen {
                continue;
            }
            let last = next.is_empty();
            let careful = careful && !self.is_finite(keys.clone());
            // SAFETY: all of it is the caller's.
            unsafe {
                let [k, v] = match tiled {
                    Some(tiled) => {
                        tiled.load(self, keys.clone());
                        [Operand::NONE; 2]
                    }
                    None => [
                        self.keys::<V>(keys.clone(), scratch.k),
                        self.values::<V>(keys.clone(), scratch.v),
                    ],
                };
                let mut ahead = match last {
                    true => self.ahead,
                    false => Ahead {
                        rows: next.len(),
                        k: self.k.from(next.start, 0),
                        v: self.v.from(next.start, 0),
                        queries: 0,
                        ..self.ahead
                    },
                };
                for group in &mut *groups {
                    if group.visible == Visible::Nothing && self.weights.is_none() {
                        continue;
                    }
                    match tiled {
                        Some(tiled) => {
                            tiled.score(self, group, scratch.scores, keys.len());
                            fetch::<V, E>(&ahead, [self.d, self.dv]);
                            if !self.mask.fills.is_empty() {
                                tiled.release();
                            }
                        }
                        None => self.score::<V>(group, scratch.scores, k, keys.len(), &ahead),
                    }
                    ahead.rows = 0;
                    let scores = &mut scratch.scores[..keys.len() * group.width];
                    group.mask.finish_products::<V>(self.settings, keys.start, scores);
                    group.mask.apply::<V>(group.visible, keys.start, scores);
                    update::<V, E>(group, scratch, keys.len());
                    if self.settings.dropout.is_some() || self.settings.relative.is_some() {
                        self.use_weights(group, keys.clone(), scratch.scores);
                    }
                    if let Some(tiled) = tiled {
                        tiled.add_values(group, scratch, keys.len());
                        group.fresh = false;
                        continue;
                    }
                    if !group.fresh {
                        rescale(group.sums, group.sums.len() / group.width, scratch.factor);
                    }
                    if careful {
                        self.add_visible_values::<V>(group, scratch.scores, v, keys.len());
                    } else {
                        self.add_values::<V>(group, scratch.scores, v, keys.len(), last);
                    }
                    group.fresh = false;
                }
            }
        }
        let mut finite = tiled.as_ref().is_none_or(Tiled::is_finite);
        for group in groups {
            if let Some(tiled) = tiled {
                tiled.turn(group);
            }
            // SAFETY: the caller's.
            finite &= unsafe { self.finish::<V>(group, scratch.scores) };
        }
        finite
    }

    /// The next keys from `first` on that some query may see, up to `block` of them; where the weights
    /// are wanted, all keys at once.
    fn next(&self, groups: &[Group<E>], first: usize, block: usize) -> Range<usize> {
        if self.weights.is_some() {
            return first..self.keys;
        }
        let mut next = self.keys..self.keys;
        for group in groups {
            let run = group.mask.next(first);
            if !run.is_empty() && run.start < next.start {
                next = run;
            }
        }
        // Another group's keys go on where those of the first end, or overlap them.
        for group in groups {
            let run = group.mask.next(next.start);
            if !run.is_empty() && run.start <= next.end {
                next.end = next.end.max(run.end);
            }
        }
        next.start..next.end.min(next.start + block)
    }

    /// The maximum and the total of the sinks.
    fn sink(&self) -> (E::Wide, E::Wide) {
        let (max, total) = self.mask.sink(self.place.head);
        (max * E::Wide::from_f64(LOG2_E), total)
    }

    /// What happens to a block's weights before they meet the values: some are dropped, and those of each
    /// relative position added up.
    #[inline(never)]
    fn use_weights(&self, group: &mut Group<E>, keys: Range<usize>, weights: &mut [E::Wide]) {
        let first = self.queries.start;
        let queries = first + group.queries.start..first + group.queries.end;
        if let Some(dropout) = self.settings.dropout {
            let place = (self.place, self.mask.first);
            dropout.drop_block(place, (queries.clone(), keys.clone()), group.width, weights);
        }
        if let Some(relative) = self.settings.relative.as_ref().filter(|x| x.values.is_some()) {
            let block = (queries, keys);
            relative.add_by_entry(self.place.batch, block, group.width, weights, group.buckets);
        }
    }

    #[inline(always)]
    unsafe fn pack_queries<V: Vector<Scalar = E::Wide>>(&self, to: &mut [E::Wide]) {
        let step = columns::<V>();
        // The scores are made as powers of 2, which are cheaper than those of e.
        let scale = E::Wide::from_f64(self.settings.scale * LOG2_E);
        let panels = to.chunks_exact_mut((step * self.d).max(1));
        for (panel, to) in panels.enumerate() {
            let queries = step.min(self.queries.len() - panel * step);
            let from = self.q.from(panel * step, 0).transposed();
            // SAFETY: the caller's.
            unsafe { pack_panel_wide::<V, E>(from, (self.d, queries), step, to) };
            to.iter_mut().for_each(|x| *x *= scale);
        }
    }

    /// Scores of a group's queries with a block of keys. Meanwhile the keys and values `ahead` are
    /// fetched.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`, `k` has `keys` rows of D, and `scores` a row of
    /// the group's width for each.
    #[inline(always)]
    unsafe fn score<V: Vector<Scalar = E::Wide>>(
        &self,
        group: &Group<E>,
        scores: &mut [E::Wide],
        k: Operand<E::Wide>,
        keys: usize,
        ahead: &Ahead<E>,
    ) {
        let (step, width) = (columns::<V>(), group.width);
        for key in (0..keys).step_by(V::ROWS) {
            for row in (key..ahead.rows).take(V::ROWS) {
                // SAFETY: the instruction set is the caller's.
                unsafe {
                    prefetch::<V, E>(ahead.k.from(row, 0), self.d);
                    prefetch::<V, E>(ahead.v.from(row, 0), self.dv);
                }
            }
            for row in (key..ahead.queries.min(ahead.rows)).take(V::ROWS) {
                // SAFETY: the instruction set is the caller's.
                unsafe { prefetch::<V, E>(ahead.q.from(row, 0), self.d) }
            }
            for query in (0..width).step_by(step) {
                if key >= group.mask.bound(query..query + step, keys) {
                    continue;
                }
                let tile = Tile {
                    k: self.d,
                    a: k.at.wrapping_add(key * k.row),
                    a_row: k.row,
                    a_k: k.column,
                    b: group.q[query * self.d..].as_ptr(),
                    b_k: step,
                    sums: scores[key * width + query..].as_mut_ptr(),
                    sums_row: width,
                    add: false,
                    output: None,
                };
                // SAFETY: the instruction set and the keys are the caller's; the panel of queries
                // has `step` places for each of D, the scores `width` for each key.
                unsafe { tile.multiply::<V>(V::ROWS.min(keys - key)) }
            }
        }
    }
}

/// The most queries of a group: those of a block, where the mask has blocks.
pub(super) fn group<E>(mask: &Mask<E>) -> usize {
    match mask.blocks.first() {
        None => GROUP,
        Some(blocks) => fitting(blocks.size[0], BLOCK).unwrap_or(GROUP),
    }
}

/// A number between these that is a multiple of `block` or divides it, the largest there is.
pub(super) fn fitting(block: usize, [least, most]: [usize; 2]) -> Option<usize> {
    (least..=most).rev().find(|n| n.is_multiple_of(block) || block.is_multiple_of(*n))
}
