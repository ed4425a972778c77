//! One pass over a chunk of keys, on one thread, for the rows that share it.
//!
//! 1. Scores, row by row: 0 where the mask shows a key and −∞ where it hides it, then the products
//!    K · q of the visible ones, with vectors along D. Several keys are in progress at once, because
//!    one sum after the other would wait for itself; the lanes of the sums are added up by
//!    transposing them, so that scores come out as vectors over the keys.
//! 2. The softmax of each row of scores, but for the division: vectors over the keys.
//! 3. V row by row, each scaled by its weight and added to the sums, with vectors along Dv.
//!
//! K and V are read where they lie if their rows are whole vectors; otherwise they are copied,
//! converted and padded with 0 block by block. Blocks that no row sees are not read at all. Where a
//! block of V has NaN or infinities, the keys of weight 0 are stepped over, because 0 · NaN is NaN.

use super::lines::{in_place, lines};
use super::scores::{GROUP, score, weigh};
use super::values::{Add, is_finite};
use crate::element::Float;
use crate::kernel::attention::terms::{Scores, soften};
use crate::kernel::attention::{Mask, Settings, rows_of};
use crate::kernel::gemm::{Matrix, pack_panel};
use crate::kernel::layout::View;
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::{Kernel, Vector};
use num_traits::{Float as _, One, Zero};
use std::ops::Range;

/// Keys of a block, which is read again from the first-level cache for further rows.
const KEYS: usize = 64;

/// The rows of a pass: the queries of the heads from `head` on, one head after the other.
pub(super) struct Rows {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) queries: usize,
    pub(super) range: Range<usize>,
}

/// A chunk of the keys of one key/value head. The views are checked to lie within their buffers.
pub(super) struct Pass<'a, E: Float> {
    /// Q, K and V as a whole.
    pub(super) views: [View<'a, E>; 3],
    /// The key/value head.
    pub(super) group: usize,
    pub(super) rows: Rows,
    pub(super) keys: Range<usize>,
    /// All keys.
    pub(super) all: usize,
    pub(super) d: usize,
    pub(super) dv: usize,
    pub(super) settings: &'a Settings<'a, E>,
    pub(super) mask: &'a Mask<'a, E>,
    /// `row` places for each row: `sums` places of its sums, the maximum, the total.
    pub(super) partial: &'a mut [E::Wide],
    pub(super) row: usize,
    pub(super) sums: usize,
}

impl Rows {
    /// Batch entry, head and query of a row.
    #[inline(always)]
    fn index(&self, row: usize) -> [usize; 3] {
        let row = self.range.start + row;
        [self.batch, self.head + row / self.queries, row % self.queries]
    }
}

impl<E: Float> Kernel<E::Wide> for Pass<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let rows = self.rows.range.len();
        for row in 0..rows {
            let partial = &mut self.partial[row * self.row..][..self.row];
            partial.fill(E::Wide::zero());
            partial[self.sums] = E::Wide::neg_infinity();
        }
        let keys = self.visible_keys();
        if keys.is_empty() {
            return;
        }
        let width = keys.len().next_multiple_of(GROUP);
        let [dp, dvp] = [self.d, self.dv].map(|n| n.next_multiple_of(V::LANES));
        let [_, k, v] = self.views.map(|view| rows_of(view, self.rows.batch, self.group));
        let copied = |from: Matrix<E>, n: usize| match in_place::<V, E>(from, n) {
            Some(_) => 0,
            None => KEYS * n.next_multiple_of(V::LANES),
        };
        let lens = [rows * dp, rows * width, copied(k, self.d), copied(v, self.dv)];
        let mut spare = Spare::take(lens.map(padded::<E::Wide>).iter().sum());
        let mut rest = &mut spare[..];
        let [q, scores, k_copy, v_copy] = lens.map(|len| split(&mut rest, len));
        for row in 0..rows {
            self.pack_query(row, &mut q[row * dp..][..dp]);
            self.show(row, keys.clone(), &mut scores[row * width..][..width]);
        }
        for first in (0..keys.len()).step_by(KEYS) {
            let block = first..keys.len().min(first + KEYS);
            let hidden = |row: &[E::Wide]| row[block.clone()].iter().all(|x| *x != E::Wide::zero());
            if scores.chunks_exact(width).all(hidden) {
                continue;
            }
            // SAFETY: the instruction set is the caller's; K has these keys, by the check of the
            // views; the scores of a row have whole groups of keys.
            unsafe {
                let from = k.from(keys.start + first, 0);
                let lines = lines::<V, E>(from, (block.len(), self.d), k_copy);
                let scores = scores[first..].as_mut_ptr();
                score::<V>((q.as_ptr(), rows, dp), (lines, block.len()), (scores, width));
            }
        }
        for row in 0..rows {
            let scores = &mut scores[row * width..][..width];
            // SAFETY: the instruction set is the caller's; a row has whole groups of keys.
            unsafe { self.settle::<V>(row, keys.clone(), scores) }
            let partial = &mut self.partial[row * self.row + self.sums..];
            // SAFETY: the instruction set is the caller's.
            (partial[0], partial[1]) = unsafe { weigh::<V>(scores) };
        }
        for first in (0..keys.len()).step_by(KEYS) {
            let block = first..keys.len().min(first + KEYS);
            let zeros = |row: &[E::Wide]| {
                row[block.clone()].iter().fold(0, |n, x| n + usize::from(*x == E::Wide::zero()))
            };
            let weightless: usize = scores.chunks_exact(width).map(zeros).sum();
            if weightless == rows * block.len() {
                continue;
            }
            // SAFETY: the instruction set is the caller's; V has these keys, by the check of the
            // views; the sums of a row have whole vectors of columns.
            unsafe {
                let from = v.from(keys.start + first, 0);
                let lines = lines::<V, E>(from, (block.len(), self.dv), v_copy);
                let careful = weightless > 0 && !is_finite::<V>(lines, (block.len(), dvp));
                let add = Add {
                    weights: scores[first..].as_ptr(),
                    width,
                    values: lines,
                    keys: block.len(),
                    sums: self.partial.as_mut_ptr(),
                    row: self.row,
                    columns: dvp,
                };
                match careful {
                    true => (0..rows).for_each(|row| add.visible::<V>(row)),
                    false => add.all::<V>(rows),
                }
            }
        }
    }
}

impl<E: Float> Pass<'_, E> {
    /// Writes a row's query, scaled, with 0 after its end.
    #[inline(always)]
    fn pack_query(&self, row: usize, to: &mut [E::Wide]) {
        let [q, ..] = self.views;
        let from = q.layout.offset + dot(self.rows.index(row), &q.layout.strides);
        let from = Matrix { data: q.data, at: from, row: 0, column: q.layout.strides[3] };
        pack_panel(from, (1, self.d), to.len(), to, E::wide);
        let scale = E::Wide::from_f64(self.settings.scale);
        to.iter_mut().for_each(|x| *x *= scale);
    }

    /// The keys of the chunk that the bands let some row see, from a multiple of a group on.
    #[inline(always)]
    fn visible_keys(&self) -> Range<usize> {
        let mut keys = self.keys.end..self.keys.start;
        for row in 0..self.rows.range.len() {
            let [b, _, query] = self.rows.index(row);
            let [from, to] = self.mask.run((b, query), self.all);
            if from < to {
                keys.start = keys.start.min(from.max(self.keys.start));
                keys.end = keys.end.max(to.min(self.keys.end));
            }
        }
        let start = self.keys.start;
        // A group's sums begin where they would if all keys were visible.
        start + keys.start.saturating_sub(start) / GROUP * GROUP..keys.end
    }

    /// Writes 0 for the keys that a row may see, −∞ for others and after the end.
    #[inline(always)]
    fn show(&self, row: usize, keys: Range<usize>, to: &mut [E::Wide]) {
        to.fill(E::Wide::zero());
        self.mask.hide_row((self.rows.index(row), keys, self.all), to);
    }

    /// Takes a row's products to scores: the cap, and what the mask adds.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; the row has whole vectors.
    #[inline(always)]
    unsafe fn settle<V: Vector<Scalar = E::Wide>>(
        &self,
        row: usize,
        keys: Range<usize>,
        scores: &mut [E::Wide],
    ) {
        if let Some(cap) = self.settings.softcap {
            // SAFETY: the caller's.
            unsafe { soften::<V>(scores, E::Wide::from_f64(cap)) }
        }
        if self.mask.adds() {
            let [batch, head, query] = self.rows.index(row);
            let queries = query..query + 1;
            let (data, unit) = (scores, E::Wide::one());
            Scores { batch, head, queries, keys, data, strides: [0, 1], unit }.add_terms(self.mask);
        }
    }
}

/// How far an index is into a block, along the first axes.
#[inline(always)]
fn dot(index: [usize; 3], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(i, stride)| i * stride).sum()
}
