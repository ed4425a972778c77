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
//! Where the weights are wanted, there is one group and one block, of all keys, whose weights are
//! written at the end.

use super::QUERIES;
use super::mask::{HeadMask, Mask, Visible};
use super::operand::Operand;
use super::running::{Group, Scratch, update};
use crate::element::Float;
use crate::kernel::gemm::{Matrix, pack_panel_wide};
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::{Kernel, Vector};
use crate::kernel::tile::{Tile, columns};
use num_traits::{Float as _, Zero};
use std::f64::consts::LOG2_E;
use std::ops::Range;

/// Queries in a group, or a few more to fill a tile's columns: whole tiles of the usual sizes, both
/// as columns of the scores and as rows of the product with V.
const GROUP: usize = 48;
/// The most groups of a piece.
const GROUPS: usize = QUERIES[0].div_ceil(GROUP);
/// Keys in a block: with them, the scores of a group take half of the first-level cache.
pub(super) const KEYS: usize = 96;

/// One head and a piece of its queries. The matrices are checked to lie within their buffers: `q` for
/// `queries` rows of `d` columns from its start, `k` and `v` for `keys` rows of `d` and of `dv`.
pub(super) struct Attend<'a, E> {
    pub(super) q: Matrix<'a, E>,
    pub(super) k: Matrix<'a, E>,
    pub(super) v: Matrix<'a, E>,
    pub(super) queries: Range<usize>,
    pub(super) keys: usize,
    pub(super) d: usize,
    pub(super) dv: usize,
    pub(super) scale: f64,
    pub(super) mask: &'a Mask<'a, E>,
    /// Batch entry and head.
    pub(super) place: (usize, usize),
    /// `dv` elements for each query, `out_row` apart, written by this block alone.
    pub(super) out: *mut E,
    pub(super) out_row: usize,
    /// `keys` elements for each query, one row after the other, if wanted.
    pub(super) weights: Option<*mut E>,
    /// What the next piece begins with.
    pub(super) next: Ahead<'a, E>,
}

/// What is fetched while a block of keys is worked on: rows of heads that lie side by side in memory
/// are too far apart for the processor to foresee.
pub(super) struct Ahead<'a, E> {
    /// Of `k` and `v`.
    pub(super) rows: usize,
    pub(super) k: Matrix<'a, E>,
    pub(super) v: Matrix<'a, E>,
    /// Rows of `q`.
    pub(super) queries: usize,
    pub(super) q: Matrix<'a, E>,
}

impl<E> Clone for Ahead<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Ahead<'_, E> {}

impl<E: Float> Kernel<E::Wide> for Attend<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let step = columns::<V>();
        let width = self.queries.len().next_multiple_of(step);
        let (group, block) = match self.weights {
            None => (width.min(GROUP.next_multiple_of(step)), KEYS.min(self.keys)),
            Some(_) => (width, self.keys),
        };
        let dv = self.dv.next_multiple_of(step);
        let k = block * self.d;
        let lens = [width * self.d, width * dv, width, width, block * group, group, block * dv, k];
        let mut spare = Spare::take(lens.map(padded::<E::Wide>).iter().sum());
        let mut rest = &mut spare[..];
        let [mut q, mut sums, mut max, mut total, scores, factor, v, k] =
            lens.map(|len| split(&mut rest, len));
        let mut scratch = Scratch { scores, factor, v, k };
        // SAFETY: the instruction set is the caller's, the matrices are as `Attend` says.
        unsafe { self.pack_queries::<V>(q) };
        let mut groups: [_; GROUPS] = std::array::from_fn(|i| {
            let first = width.min(i * group);
            let width = group.min(width - first);
            let queries = self.queries.len().min(first)..self.queries.len().min(first + width);
            let range = self.queries.start + queries.start..self.queries.start + queries.end;
            Group {
                mask: HeadMask::new(self.mask, self.place, range, width, self.keys),
                queries,
                width,
                q: cut(&mut q, width * self.d),
                sums: cut(&mut sums, width * dv),
                max: cut(&mut max, width),
                total: cut(&mut total, width),
                visible: Visible::Nothing,
                fresh: true,
            }
        });
        let groups = &mut groups[..width.div_ceil(group.max(1))];
        // SAFETY: the caller vouches for the instruction set, `Attend`'s maker for the matrices and
        // the outputs; the scratch is as long as `Group` and `Scratch` say.
        unsafe {
            for careful in [false, true] {
                if self.pass::<V>(groups, &mut scratch, block.max(1), careful) {
                    return;
                }
            }
        }
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
        block: usize,
        careful: bool,
    ) -> bool {
        for group in &mut *groups {
            group.max.fill(E::Wide::neg_infinity());
            group.total.fill(E::Wide::zero());
            group.fresh = true;
        }
        let end = groups.iter().map(|group| group.mask.end(self.keys)).max().unwrap_or(0);
        for first in (0..end).step_by(block) {
            let keys = first..end.min(first + block);
            let mut seen = self.weights.is_some();
            for group in &mut *groups {
                group.visible = group.mask.look(keys.clone());
                seen |= group.visible != Visible::Nothing;
            }
            if !seen {
                continue;
            }
            let careful = careful && !self.is_finite(keys.clone());
            // SAFETY: all of it is the caller's.
            unsafe {
                let k = self.keys(keys.clone(), scratch.k);
                let v = self.values::<V>(keys.clone(), scratch.v);
                let mut ahead = match keys.end == end {
                    true => self.next,
                    false => Ahead {
                        rows: block.min(end - keys.end),
                        k: self.k.from(keys.end, 0),
                        v: self.v.from(keys.end, 0),
                        queries: 0,
                        ..self.next
                    },
                };
                for group in &mut *groups {
                    if group.visible == Visible::Nothing && self.weights.is_none() {
                        continue;
                    }
                    self.score::<V>(group, scratch.scores, k, keys.len(), &ahead);
                    ahead.rows = 0;
                    let scores = &mut scratch.scores[..keys.len() * group.width];
                    group.mask.apply(group.visible, first, columns::<V>(), scores);
                    update::<V, E>(group, scratch, keys.len());
                    if careful {
                        self.add_visible_values::<V>(group, scratch.scores, v, keys.len());
                    } else {
                        self.add_values::<V>(group, scratch.scores, v, keys.len(), keys.end == end);
                    }
                    group.fresh = false;
                }
            }
        }
        let mut finite = true;
        for group in groups {
            // SAFETY: the caller's.
            finite &= unsafe { self.finish::<V>(group, scratch.scores, end) };
        }
        finite
    }

    #[inline(always)]
    unsafe fn pack_queries<V: Vector<Scalar = E::Wide>>(&self, to: &mut [E::Wide]) {
        let step = columns::<V>();
        // The scores are made as powers of 2, which are cheaper than those of e.
        let scale = E::Wide::from_f64(self.scale * LOG2_E);
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

    /// Divides a group's sums by their totals and writes them; likewise the weights, where wanted.
    /// Gives whether the outputs are finite.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; the outputs are as [`Attend`] says.
    #[inline(always)]
    unsafe fn finish<V: Vector<Scalar = E::Wide>>(
        &self,
        group: &Group<E>,
        scores: &[E::Wide],
        end: usize,
    ) -> bool {
        let zero = E::Wide::zero();
        let row = self.dv.next_multiple_of(columns::<V>());
        let mut finite = true;
        for (i, query) in group.queries.clone().enumerate() {
            let total = group.total[i];
            if self.dv > 0 {
                // SAFETY: the caller's.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(self.out.add(query * self.out_row), self.dv)
                };
                if total == zero {
                    out.fill(E::narrow(zero));
                } else {
                    let factor = total.recip();
                    for (out, &sum) in out.iter_mut().zip(&group.sums[i * row..]) {
                        let sum = sum * factor;
                        finite &= sum.is_finite();
                        *out = E::narrow(sum);
                    }
                }
            }
            if let Some(weights) = self.weights {
                // SAFETY: the caller's.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(weights.add(query * self.keys), self.keys)
                };
                let (seen, hidden) = out.split_at_mut(end);
                hidden.fill(E::narrow(zero));
                for (out, row) in seen.iter_mut().zip(scores.chunks_exact(group.width)) {
                    // 0 / NaN would be NaN: a hidden key beside a visible NaN keeps its 0.
                    *out = E::narrow(if row[i] == zero { zero } else { row[i] / total });
                }
            }
        }
        finite
    }
}

/// Fetches the first row of a matrix, if it is one piece of memory: rows often lie too far apart for
/// the processor to foresee.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn prefetch<V: Vector, E>(matrix: Matrix<E>, columns: usize) {
    if matrix.column == 1 {
        let row = matrix.data.as_ptr().wrapping_add(matrix.at);
        for column in (0..columns).step_by(64 / size_of::<E>()) {
            // SAFETY: the caller's.
            unsafe { V::prefetch(row.wrapping_add(column).cast()) }
        }
    }
}
