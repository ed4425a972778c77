//! One head's attention for a block of queries, on one thread.
//!
//! The keys are visited block by block with a running maximum and sum for each query, so the scores
//! of one block are all that exists. Scores are laid out key by key: the product K · Qᵀ has vectors of
//! queries as its columns, so maxima, exponentials and sums need no step across lanes, and the weights
//! come out in the order in which the product with V reads its left-hand side. Only the block of
//! queries is transposed, once; keys are read where they lie.
//!
//! When a block raises a query's maximum, what was summed so far is scaled down to it. Blocks that no
//! query sees are left out. Hidden scores are −∞ before the maximum is taken, so their weights are
//! exactly 0; where V holds NaN or infinities in a block with such weights, the product steps over the
//! keys of weight 0, because 0 · NaN is NaN.
//!
//! Where the weights are wanted, there is one block, of all keys, whose weights are written at the
//! end.

use super::mask::{HeadMask, Mask, Visible};
use super::running::{State, update};
use crate::element::Float;
use crate::kernel::gemm::{Matrix, pack_panel, pack_panel_wide};
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::{Kernel, Vector};
use crate::kernel::tile::{Tile, columns};
use num_traits::{Float as _, One, Zero};
use std::ops::Range;

/// Keys in a block: with the scores of 64 queries, near the size of the first-level cache.
pub(super) const KEYS: usize = 96;
/// Rows of V further apart than this many bytes crowd into few cache sets: they are packed, unless
/// they are used only once.
const FAR: usize = 512;

/// One head and a block of its queries. The matrices are checked to lie within their buffers: `q` for
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
}

impl<E: Float> Kernel<E::Wide> for Attend<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let step = columns::<V>();
        let width = self.queries.len().next_multiple_of(step);
        let mut mask = HeadMask::new(self.mask, self.place, self.queries.clone(), width, self.keys);
        let end = mask.end(self.keys);
        let block = if self.weights.is_some() { end.max(1) } else { KEYS };
        let dv = self.dv.next_multiple_of(step);
        let sums_len = self.queries.len() * dv;
        let k_len = if E::as_wide(self.k.data).is_some() { 0 } else { block * self.d };
        let lens =
            [width * self.d, block * width, sums_len, width, width, width, block * dv, k_len];
        let mut spare = Spare::take(lens.map(padded::<E::Wide>).iter().sum());
        let mut rest = &mut spare[..];
        let [q, scores, sums, max, total, factor, v, k] = lens.map(|len| split(&mut rest, len));
        let mut state = State { width, q, scores, sums, max, total, factor, v, k };
        state.sums.fill(E::Wide::zero());
        state.max.fill(E::Wide::neg_infinity());
        state.total.fill(E::Wide::zero());
        // SAFETY: the instruction set is the caller's, the matrices are as `Attend` says.
        unsafe { self.pack_queries::<V>(&mut state) };
        for first in (0..end).step_by(block) {
            let keys = first..end.min(first + block);
            let visible = mask.look(keys.clone());
            if visible == Visible::Nothing && self.weights.is_none() {
                continue;
            }
            // SAFETY: the caller vouches for the instruction set, `Attend`'s maker for the matrices;
            // the scratch is as long as `State` says.
            unsafe {
                self.score::<V>(&mut state, keys.clone(), &mask);
                let scores = &mut state.scores[..keys.len() * width];
                mask.apply(visible, first, scores);
                let weightless = update::<V, E>(&mut state, keys.len(), &mask);
                self.rescale(&mut state);
                let careful = weightless && !self.is_finite(keys.clone());
                self.add_values::<V>(&mut state, keys, &mask, careful);
            }
        }
        // SAFETY: `Attend`'s maker vouches for the outputs.
        unsafe { self.finish(&state, end) }
    }
}

impl<E: Float> Attend<'_, E> {
    #[inline(always)]
    unsafe fn pack_queries<V: Vector<Scalar = E::Wide>>(&self, state: &mut State<E::Wide>) {
        for query in 0..self.queries.len() {
            // SAFETY: the instruction set is the caller's.
            unsafe { prefetch::<V, E>(self.q.from(query, 0), self.d) };
        }
        let step = columns::<V>();
        let panels = state.q.chunks_exact_mut((step * self.d).max(1));
        for (panel, to) in panels.enumerate() {
            let queries = step.min(self.queries.len() - panel * step);
            let from = self.q.from(panel * step, 0).transposed();
            // SAFETY: the caller's.
            unsafe { pack_panel_wide::<V, E>(from, (self.d, queries), step, to) };
        }
        let scale = E::Wide::from_f64(self.scale);
        state.q.iter_mut().for_each(|x| *x *= scale);
    }

    /// Scores of all queries with a block of keys.
    #[inline(always)]
    unsafe fn score<V: Vector<Scalar = E::Wide>>(
        &self,
        state: &mut State<E::Wide>,
        keys: Range<usize>,
        mask: &HeadMask<E>,
    ) {
        let (step, width) = (columns::<V>(), state.width);
        let from = self.k.from(keys.start, 0);
        let (k, k_row, k_column) = match E::as_wide(from.data) {
            Some(wide) => (&wide[from.at.min(wide.len())..], from.row, from.column),
            None => {
                pack_panel(from, (keys.len(), self.d), self.d, state.k, E::wide);
                (&*state.k, self.d, 1)
            }
        };
        for key in (0..keys.len()).step_by(V::ROWS) {
            // SAFETY: the instruction set is the caller's.
            unsafe { self.prefetch::<V>(keys.start + key) };
            let a = k[(key * k_row).min(k.len())..].as_ptr();
            for query in (0..width).step_by(step) {
                if key >= mask.bound(query..query + step, keys.len()) {
                    continue;
                }
                let tile = Tile {
                    k: self.d,
                    a,
                    a_row: k_row,
                    a_k: k_column,
                    b: state.q[query * self.d..].as_ptr(),
                    b_k: step,
                    sums: state.scores[key * width + query..].as_mut_ptr(),
                    sums_row: width,
                    add: false,
                    output: None,
                };
                // SAFETY: the instruction set and the keys are the caller's; the panel of queries
                // has `step` places for each of D, the scores `width` for each key.
                unsafe { tile.multiply::<V>(V::ROWS.min(keys.len() - key)) }
            }
        }
    }

    /// Fetches the keys of the tile after next, and the tile's values, which are needed when the
    /// block's weights are known.
    #[inline(always)]
    unsafe fn prefetch<V: Vector<Scalar = E::Wide>>(&self, key: usize) {
        for key in key..self.keys.min(key + V::ROWS) {
            // SAFETY: the instruction set is the caller's.
            unsafe { prefetch::<V, E>(self.v.from(key, 0), self.dv) };
            let ahead = key + 2 * V::ROWS;
            if ahead < self.keys {
                // SAFETY: as above.
                unsafe { prefetch::<V, E>(self.k.from(ahead, 0), self.d) };
            }
        }
    }

    /// Scales the sums down to a maximum that has risen.
    #[inline(always)]
    fn rescale(&self, state: &mut State<E::Wide>) {
        let row = state.sums.len() / self.queries.len().max(1);
        for (sums, &factor) in state.sums.chunks_exact_mut(row.max(1)).zip(&*state.factor) {
            if factor == E::Wide::zero() {
                sums.fill(factor); // 0 · ∞ would be NaN
            } else if factor != E::Wide::one() {
                sums.iter_mut().for_each(|sum| *sum *= factor);
            }
        }
    }

    /// Whether a block of V holds only finite numbers.
    #[inline(always)]
    fn is_finite(&self, keys: Range<usize>) -> bool {
        self.dv == 0
            || keys.into_iter().all(|key| {
                let row = self.v.from(key, 0);
                if row.column == 1 {
                    let row = &row.data[row.at..][..self.dv];
                    row.iter().fold(true, |finite, x| finite & x.wide().is_finite())
                } else {
                    (0..self.dv).all(|c| row.data[row.at + c * row.column].wide().is_finite())
                }
            })
    }

    /// Adds weights · V of a block of keys to the sums.
    #[inline(always)]
    unsafe fn add_values<V: Vector<Scalar = E::Wide>>(
        &self,
        state: &mut State<E::Wide>,
        keys: Range<usize>,
        mask: &HeadMask<E>,
        careful: bool,
    ) {
        let (step, width, queries) = (columns::<V>(), state.width, self.queries.len());
        let row = self.dv.next_multiple_of(step);
        let near = self.v.row * size_of::<E>() <= FAR || queries <= V::ROWS;
        let near = near && self.v.column == 1;
        let in_place = E::as_wide(self.v.data).filter(|_| near && self.dv.is_multiple_of(step));
        if in_place.is_none() {
            // SAFETY: the instruction set is the caller's.
            unsafe { self.pack_values::<V>(state.v, keys.clone()) };
        }
        for column in (0..self.dv).step_by(step) {
            let (b, b_k) = match in_place {
                Some(wide) => (wide[self.v.from(keys.start, column).at..].as_ptr(), self.v.row),
                None => (state.v[column * keys.len()..].as_ptr(), step),
            };
            for query in (0..queries).step_by(V::ROWS) {
                let rows = V::ROWS.min(queries - query);
                for row in query..query + rows {
                    // SAFETY: the instruction set is the caller's.
                    unsafe {
                        V::prefetch(self.out.wrapping_add(row * self.out_row + column).cast())
                    }
                }
                let panels = query / step * step..(query + rows).next_multiple_of(step);
                let tile = Tile {
                    k: mask.bound(panels, keys.len()),
                    a: state.scores[query..].as_ptr(),
                    a_row: 1,
                    a_k: width,
                    b,
                    b_k,
                    sums: state.sums[query * row + column..].as_mut_ptr(),
                    sums_row: row,
                    add: true,
                    output: None,
                };
                // SAFETY: the instruction set is the caller's. The weights have `width` places for
                // each key; V, in place or packed, `step` columns for each key; the sums were set
                // to 0 at the start and have whole tiles of columns.
                unsafe {
                    if careful {
                        add_visible::<V>(&tile, rows);
                    } else {
                        tile.multiply::<V>(rows);
                    }
                }
            }
        }
    }

    /// Copies a block of V row by row into panels of a tile's columns.
    #[inline(always)]
    unsafe fn pack_values<V: Vector<Scalar = E::Wide>>(
        &self,
        to: &mut [E::Wide],
        keys: Range<usize>,
    ) {
        let step = columns::<V>();
        let wide = E::as_wide(self.v.data).filter(|_| self.v.column == 1);
        let whole = if wide.is_some() { self.dv / step * step } else { 0 };
        if let Some(wide) = wide {
            for key in 0..keys.len() {
                let row = wide[self.v.from(keys.start + key, 0).at..][..whole].chunks_exact(step);
                let panels = to.chunks_exact_mut(keys.len() * step);
                for (from, to) in row.zip(panels) {
                    let to = &mut to[key * step..][..step];
                    // SAFETY: the instruction set is the caller's; both have a tile's columns.
                    unsafe {
                        V::load(from.as_ptr()).store(to.as_mut_ptr());
                        V::load(from[V::LANES..].as_ptr()).store(to[V::LANES..].as_mut_ptr());
                    }
                }
            }
        }
        for column in (whole..self.dv).step_by(step) {
            let from = self.v.from(keys.start, column);
            let columns = step.min(self.dv - column);
            pack_panel(from, (keys.len(), columns), step, &mut to[column * keys.len()..], E::wide);
        }
    }

    /// Divides the sums by the totals and writes them; likewise the weights, where wanted.
    ///
    /// # Safety
    ///
    /// The outputs are as [`Attend`] says.
    #[inline(always)]
    unsafe fn finish(&self, state: &State<E::Wide>, end: usize) {
        let zero = E::Wide::zero();
        let row = state.sums.len() / self.queries.len().max(1);
        for i in 0..self.queries.len() {
            let total = state.total[i];
            if self.dv > 0 {
                // SAFETY: the caller's.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(self.out.add(i * self.out_row), self.dv)
                };
                for (out, &sum) in out.iter_mut().zip(&state.sums[i * row..]) {
                    *out = E::narrow(if total == zero { zero } else { sum / total });
                }
            }
            if let Some(weights) = self.weights {
                // SAFETY: the caller's.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(weights.add(i * self.keys), self.keys)
                };
                let (seen, hidden) = out.split_at_mut(end);
                hidden.fill(E::narrow(zero));
                for (out, row) in seen.iter_mut().zip(state.scores.chunks_exact(state.width)) {
                    // 0 / NaN would be NaN: a hidden key beside a visible NaN keeps its 0.
                    *out = E::narrow(if row[i] == zero { zero } else { row[i] / total });
                }
            }
        }
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

/// Does the tile's sums row by row, over the runs of keys whose weight is not 0.
///
/// # Safety
///
/// As for [`Tile::multiply`].
#[inline(always)]
unsafe fn add_visible<V: Vector>(tile: &Tile<V::Scalar>, rows: usize) {
    for row in 0..rows {
        // SAFETY: within the tile, for which the caller vouches.
        unsafe {
            let weight = |key: usize| *tile.a.add(row * tile.a_row + key * tile.a_k);
            let mut key = 0;
            while key < tile.k {
                let first = key;
                while key < tile.k && weight(key) != V::Scalar::zero() {
                    key += 1;
                }
                if key > first {
                    let run = Tile {
                        k: key - first,
                        a: tile.a.add(row * tile.a_row + first * tile.a_k),
                        b: tile.b.add(first * tile.b_k),
                        sums: tile.sums.add(row * tile.sums_row),
                        ..*tile
                    };
                    run.multiply::<V>(1);
                }
                key += 1;
            }
        }
    }
}
