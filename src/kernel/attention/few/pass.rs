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

use crate::element::{Float, Real};
use crate::kernel::attention::Mask;
use crate::kernel::exp::exp_of_negative;
use crate::kernel::gemm::{Matrix, pack_panel};
use crate::kernel::layout::View;
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::{Kernel, MAX_LANES, Vector};
use num_traits::{Float as _, Zero};
use std::ops::Range;

/// Keys of a block, which is read again from the first-level cache for further rows.
const KEYS: usize = 64;
/// Keys whose scores are made at a time: whole vectors of any set.
const GROUP: usize = MAX_LANES;
/// The most rows of a tile.
const TILE: usize = 4;
/// Rows of V that are asked for before they are needed.
const AHEAD: usize = 12;

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
    pub(super) d: usize,
    pub(super) dv: usize,
    pub(super) scale: f64,
    pub(super) mask: &'a Mask<'a, E>,
    /// `row` places for each row: `sums` places of its sums, the maximum, the total.
    pub(super) partial: &'a mut [E::Wide],
    pub(super) row: usize,
    pub(super) sums: usize,
}

/// Rows of K or V in whole vectors.
#[derive(Clone, Copy)]
struct Lines<R> {
    at: *const R,
    /// From one row to the next.
    row: usize,
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
        let limit = |row| self.mask.limit(self.rows.index(row)[2], self.keys.end);
        let end = (0..rows).map(limit).max().unwrap_or(0);
        if end <= self.keys.start {
            return;
        }
        let keys = self.keys.start..end;
        let width = keys.len().next_multiple_of(GROUP);
        let [dp, dvp] = [self.d, self.dv].map(|n| n.next_multiple_of(V::LANES));
        let [_, k, v] = self.views.map(|view| self.matrix(view));
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
            self.add_biases(row, keys.clone(), scores);
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

impl<'a, E: Float> Pass<'a, E> {
    /// A view's matrix for this batch entry and key/value head.
    #[inline(always)]
    fn matrix(&self, view: View<'a, E>) -> Matrix<'a, E> {
        let strides = view.layout.strides;
        let at = view.layout.offset + self.rows.batch * strides[0] + self.group * strides[1];
        Matrix { data: view.data, at, row: strides[2], column: strides[3] }
    }

    /// Writes a row's query, scaled, with 0 after its end.
    #[inline(always)]
    fn pack_query(&self, row: usize, to: &mut [E::Wide]) {
        let [q, ..] = self.views;
        let from = q.layout.offset + dot(self.rows.index(row), &q.layout.strides);
        let from = Matrix { data: q.data, at: from, row: 0, column: q.layout.strides[3] };
        pack_panel(from, (1, self.d), to.len(), to, E::wide);
        let scale = E::Wide::from_f64(self.scale);
        to.iter_mut().for_each(|x| *x *= scale);
    }

    /// Writes 0 for the keys that a row may see, −∞ for others and after the end.
    #[inline(always)]
    fn show(&self, row: usize, keys: Range<usize>, to: &mut [E::Wide]) {
        let index = self.rows.index(row);
        let limit = self.mask.limit(index[2], keys.end).max(keys.start) - keys.start;
        to[..limit].fill(E::Wide::zero());
        to[limit..].fill(E::Wide::neg_infinity());
        for keep in &self.mask.keep {
            let strides = keep.layout.strides;
            let at = keep.layout.offset + dot(index, &strides) + keys.start * strides[3];
            for (j, to) in to[..limit].iter_mut().enumerate() {
                if !keep.data[at + j * strides[3]] {
                    *to = E::Wide::neg_infinity();
                }
            }
        }
    }

    #[inline(always)]
    fn add_biases(&self, row: usize, keys: Range<usize>, scores: &mut [E::Wide]) {
        let hidden = E::Wide::neg_infinity();
        for bias in &self.mask.bias {
            let strides = bias.layout.strides;
            let at = bias.layout.offset + dot(self.rows.index(row), &strides);
            let at = at + keys.start * strides[3];
            for (j, score) in scores[..keys.len()].iter_mut().enumerate() {
                let bias = bias.data[at + j * strides[3]].wide();
                // What is hidden stays so: −∞ and another bias of ∞ or NaN would be NaN.
                let hide = bias == hidden || *score == hidden;
                *score = if hide { hidden } else { *score + bias };
            }
        }
    }
}

/// How far an index is into a block, along the first axes.
#[inline(always)]
fn dot(index: [usize; 3], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(i, stride)| i * stride).sum()
}

/// The elements, where rows of `n` columns can be read in place: wide, next to one another, whole
/// vectors.
#[inline(always)]
fn in_place<V: Vector, E: Float<Wide = V::Scalar>>(
    from: Matrix<'_, E>,
    n: usize,
) -> Option<&[V::Scalar]> {
    E::as_wide(from.data).filter(|_| from.column == 1 && n.is_multiple_of(V::LANES))
}

/// A matrix of `rows` rows of `n` columns as lines of whole vectors: in place, or copied with 0 after
/// the end of each.
#[inline(always)]
fn lines<V: Vector, E: Float<Wide = V::Scalar>>(
    from: Matrix<'_, E>,
    (rows, n): (usize, usize),
    copy: &mut [V::Scalar],
) -> Lines<V::Scalar> {
    if let Some(wide) = in_place::<V, E>(from, n) {
        return Lines { at: wide.as_ptr().wrapping_add(from.at), row: from.row };
    }
    let row = n.next_multiple_of(V::LANES);
    pack_panel(from, (rows, n), row, copy, E::wide);
    Lines { at: copy.as_ptr(), row }
}

/// Writes the products of rows of Q, `dp` wide, and `keys` lines of K over those scores that are not
/// below 0, in whole groups of keys.
///
/// # Safety
///
/// The processor has the instruction set of `V`. There are `rows` rows of Q and `keys` lines, of `dp`
/// columns, a multiple of the lanes; each row has scores for whole groups of keys, rows `width` apart.
#[inline(always)]
unsafe fn score<V: Vector>(
    (q, rows, dp): (*const V::Scalar, usize, usize),
    (k, keys): (Lines<V::Scalar>, usize),
    (scores, width): (*mut V::Scalar, usize),
) {
    let mut lanes = [V::Scalar::zero(); TILE * GROUP * MAX_LANES];
    for first in (0..keys).step_by(GROUP) {
        // The last group ends with the last key again; its places are below 0.
        let key = |j: usize| k.at.wrapping_add((first + j).min(keys - 1) * k.row);
        let group: [*const V::Scalar; GROUP] = std::array::from_fn(key);
        // Lines side by side are foreseen by the processor, but not far enough where rows take turns.
        if k.row != dp || rows > 1 {
            for key in group {
                // SAFETY: the instruction set is the caller's.
                unsafe { prefetch::<V>(key.wrapping_add(GROUP * k.row), dp) }
            }
        }
        for row in (0..rows).step_by(TILE) {
            // SAFETY: the caller's.
            unsafe {
                let q = q.add(row * dp);
                let scores = scores.add(row * width + first);
                match rows - row {
                    1 => dots::<V, 1, 8>((q, dp), group, &mut lanes),
                    2 => dots::<V, 2, 4>((q, dp), group, &mut lanes),
                    3 => dots::<V, 3, 4>((q, dp), group, &mut lanes),
                    _ => dots::<V, 4, 2>((q, dp), group, &mut lanes),
                }
                for row in 0..TILE.min(rows - row) {
                    let lanes = lanes[row * GROUP * V::LANES..].as_ptr();
                    add_up::<V>(lanes, scores.add(row * width));
                }
            }
        }
    }
}

/// The products of R rows and a group of keys, J at a time, as vectors whose lanes are still to be
/// added up.
///
/// # Safety
///
/// As for [`score`]; J divides the group.
#[inline(always)]
unsafe fn dots<V: Vector, const R: usize, const J: usize>(
    (q, dp): (*const V::Scalar, usize),
    k: [*const V::Scalar; GROUP],
    lanes: &mut [V::Scalar; TILE * GROUP * MAX_LANES],
) {
    // SAFETY: the caller's; `lanes` has a vector for each row and key.
    unsafe {
        for first in (0..GROUP).step_by(J) {
            let keys: [*const V::Scalar; J] = std::array::from_fn(|j| k[first + j]);
            let mut sums = [[V::splat(V::Scalar::zero()); J]; R];
            for c in (0..dp).step_by(V::LANES) {
                let q: [V; R] = std::array::from_fn(|row| V::load(q.add(row * dp + c)));
                for (j, key) in keys.into_iter().enumerate() {
                    let key = V::load(key.add(c));
                    for (sums, q) in sums.iter_mut().zip(q) {
                        sums[j] = q.mul_add(key, sums[j]);
                    }
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let at = (row * GROUP + first + j) * V::LANES;
                    sum.store(lanes.as_mut_ptr().add(at));
                }
            }
        }
    }
}

/// Writes the sum of the lanes of each of a group's vectors, where the score there is not below 0.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there are a group of vectors and of scores.
#[inline(always)]
unsafe fn add_up<V: Vector>(lanes: *const V::Scalar, scores: *mut V::Scalar) {
    let mut turned = [V::Scalar::zero(); MAX_LANES * MAX_LANES];
    let zero = V::Scalar::zero();
    // SAFETY: the caller's.
    unsafe {
        for at in (0..GROUP).step_by(V::LANES) {
            V::transpose(lanes.add(at * V::LANES), V::LANES, turned.as_mut_ptr(), V::LANES);
            let mut sums = [V::splat(zero); 2];
            for lane in 0..V::LANES {
                let x = V::load(turned.as_ptr().add(lane * V::LANES));
                sums[lane % 2] = sums[lane % 2].add(x);
            }
            let place = scores.add(at);
            let shown = V::load(place);
            shown.if_less(V::splat(zero), shown, sums[0].add(sums[1])).store(place);
        }
    }
}

/// Turns a row of scores, in whole groups, into weights relative to their maximum. Gives that and the
/// total.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn weigh<V: Vector>(scores: &mut [V::Scalar]) -> (V::Scalar, V::Scalar) {
    let (zero, nothing) = (V::Scalar::zero(), V::Scalar::neg_infinity());
    let mut lanes = [nothing; MAX_LANES];
    // SAFETY: the instruction set is the caller's; the chunks are whole vectors.
    unsafe {
        let mut max = [V::splat(nothing); 2];
        for (i, scores) in scores.chunks_exact(V::LANES).enumerate() {
            // A NaN is passed over here, and reaches the total through its weight.
            max[i % 2] = V::load(scores.as_ptr()).max(max[i % 2]);
        }
        max[0].max(max[1]).store(lanes.as_mut_ptr());
        let max = lanes[..V::LANES].iter().fold(nothing, |max, &x| max.max(x));
        // Where nothing is visible, −∞ − −∞ would be NaN.
        let base = V::splat(if max == nothing { zero } else { max });
        let mut sum = V::splat(zero);
        for scores in scores.chunks_exact_mut(V::LANES) {
            let weight = exp_of_negative(V::load(scores.as_ptr()).sub(base));
            weight.store(scores.as_mut_ptr());
            sum = sum.add(weight);
        }
        sum.store(lanes.as_mut_ptr());
        (max, lanes[..V::LANES].iter().fold(zero, |sum, &x| sum + x))
    }
}

/// Fetches a line ahead of its use.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn prefetch<V: Vector>(line: *const V::Scalar, columns: usize) {
    for c in (0..columns).step_by(64 / size_of::<V::Scalar>()) {
        // SAFETY: the caller's.
        unsafe { V::prefetch(line.wrapping_add(c)) }
    }
}

/// Whether lines have only finite numbers.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there are `rows` lines of `columns` columns.
#[inline(always)]
unsafe fn is_finite<V: Vector>(lines: Lines<V::Scalar>, (rows, columns): (usize, usize)) -> bool {
    let zero = V::Scalar::zero();
    let mut lanes = [zero; MAX_LANES];
    // SAFETY: the caller's.
    unsafe {
        let mut sum = V::splat(zero);
        for row in 0..rows {
            let line = lines.at.wrapping_add(row * lines.row);
            for c in (0..columns).step_by(V::LANES) {
                sum = V::load(line.add(c)).mul_add(V::splat(zero), sum); // NaN for ∞ and NaN
            }
        }
        sum.store(lanes.as_mut_ptr());
    }
    lanes.iter().all(|x| *x == zero)
}

/// Adds weights · V of a block of keys to sums.
struct Add<R> {
    /// A weight for each key, rows `width` apart.
    weights: *const R,
    width: usize,
    values: Lines<R>,
    keys: usize,
    /// Rows `row` apart of `columns` columns, whole vectors.
    sums: *mut R,
    row: usize,
    columns: usize,
}

impl<R: Real> Add<R> {
    /// For all of `rows` rows.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; all is as [`Add`] says.
    #[inline(always)]
    unsafe fn all<V: Vector<Scalar = R>>(&self, rows: usize) {
        for row in (0..rows).step_by(TILE) {
            // SAFETY: the caller's.
            unsafe { self.tile::<V>(row, TILE.min(rows - row), 0..self.keys) }
        }
    }

    /// For one row, stepping over keys of weight 0.
    ///
    /// # Safety
    ///
    /// As for [`all`](Self::all).
    #[inline(always)]
    unsafe fn visible<V: Vector<Scalar = R>>(&self, row: usize) {
        for key in 0..self.keys {
            // SAFETY: the caller's.
            unsafe {
                if *self.weights.add(row * self.width + key) != R::zero() {
                    self.tile::<V>(row, 1, key..key + 1);
                }
            }
        }
    }

    /// For up to [`TILE`] rows.
    #[inline(always)]
    unsafe fn tile<V: Vector<Scalar = R>>(&self, row: usize, rows: usize, keys: Range<usize>) {
        let vectors = self.columns / V::LANES;
        let mut done = 0;
        while done < vectors {
            let place = (row, done * V::LANES, keys.clone());
            // SAFETY: the caller's, see `all`; the vectors taken are among those left.
            done += unsafe {
                match (rows, vectors - done) {
                    (1, 8..) => self.columns::<V, 1, 8>(place),
                    (1, 4..) => self.columns::<V, 1, 4>(place),
                    (1, 2..) => self.columns::<V, 1, 2>(place),
                    (1, _) => self.columns::<V, 1, 1>(place),
                    (2, 4..) => self.columns::<V, 2, 4>(place),
                    (2, 2..) => self.columns::<V, 2, 2>(place),
                    (2, _) => self.columns::<V, 2, 1>(place),
                    (3, 2..) => self.columns::<V, 3, 2>(place),
                    (3, _) => self.columns::<V, 3, 1>(place),
                    (_, 2..) => self.columns::<V, 4, 2>(place),
                    (_, _) => self.columns::<V, 4, 1>(place),
                }
            };
        }
    }

    /// For M rows and N vectors of columns, which stay in registers. Gives N.
    #[inline(always)]
    unsafe fn columns<V: Vector<Scalar = R>, const M: usize, const N: usize>(
        &self,
        (row, column, keys): (usize, usize, Range<usize>),
    ) -> usize {
        // SAFETY: the caller's, see `all`.
        unsafe {
            let place =
                |m: usize, n: usize| self.sums.add((row + m) * self.row + column + n * V::LANES);
            let mut sums: [[V; N]; M] =
                std::array::from_fn(|m| std::array::from_fn(|n| V::load(place(m, n))));
            let weights: [*const R; M] =
                std::array::from_fn(|m| self.weights.add((row + m) * self.width));
            let mut line = self.values.at.wrapping_add(keys.start * self.values.row + column);
            // The first of several turns, or of lines that lie apart, brings the whole line.
            let parts = self.values.row != self.columns || N * V::LANES < self.columns;
            let ask = column == 0 && parts;
            for key in keys {
                if ask {
                    prefetch::<V>(line.wrapping_add(AHEAD * self.values.row), self.columns);
                }
                let values: [V; N] = std::array::from_fn(|n| V::load(line.add(n * V::LANES)));
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    let weight = V::splat(*weights.add(key));
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = weight.mul_add(value, *sum);
                    }
                }
                // The last step may leave V's memory; nothing is read there.
                line = line.wrapping_add(self.values.row);
            }
            for (m, sums) in sums.into_iter().enumerate() {
                for (n, sum) in sums.into_iter().enumerate() {
                    sum.store(place(m, n));
                }
            }
        }
        N
    }
}
