//! One block of a product, on one thread.
//!
//! For each panel of B, as long as the nearest cache holds it, all tiles of the block go on summing; A
//! stays in the second-level cache from panel to panel. Where K is longer than a panel's part, the sums
//! of a panel live in scratch between the parts, wide. With the last part each tile is finished: bias,
//! rounding, and the store to wherever the output lies. Rows of wide numbers are written by the tile
//! itself. Meanwhile the next part of B and the lines of the output, which lie far apart, are fetched.
//!
//! A is read in place where its rows are pieces of memory, else packed; likewise B where too few rows
//! would use the copy.

use super::pack::{Matrix, pack_panel_wide, pack_rows};
use crate::element::Float;
use crate::kernel::scratch::{LINE, Spare, padded, split};
use crate::kernel::simd::elements::{load, prefetch, store, widen};
use crate::kernel::simd::{Kernel, Vector};
use crate::kernel::tile::{Output, Tile, columns};
use std::ops::Range;

/// Bytes of a panel's part of B: with the rows of a tile, within any first-level cache.
const PART: usize = 16 << 10;
/// The rows of a block this long fit the second-level cache.
pub(super) const K_CHUNK: usize = 1024;
/// With fewer columns, A is not worth packing; the second number is for columns of A that lie far apart.
const COLUMNS_TO_PACK_A: [usize; 2] = [192, 96];
/// Bytes between numbers that meet in few places of the first-level cache, where there are many of them.
const FAR_APART: usize = 1 << 10;
/// With fewer rows, B is not worth packing.
const ROWS_TO_PACK_B: usize = 24;
/// With fewer tiles, B is read in one go, and the processor foresees what follows.
const TILES_TO_FETCH_B: usize = 4;

/// Where a block's part of B is.
#[derive(Clone, Copy)]
pub(in crate::kernel) enum Right<'a, E> {
    /// Panels of a tile's columns, each of all K, one after the other.
    Panels(&'a [E]),
    Matrix(Matrix<'a, E>),
}

/// `rows` × `columns` sums over `k`, and where they go.
pub(in crate::kernel) struct Block<'a, E> {
    pub(in crate::kernel) rows: usize,
    pub(in crate::kernel) columns: usize,
    pub(in crate::kernel) k: usize,
    pub(in crate::kernel) a: Matrix<'a, E>,
    pub(in crate::kernel) b: Right<'a, E>,
    /// One number for each of the columns.
    pub(in crate::kernel) bias: Option<&'a [E]>,
    /// All rows and columns from here on can be written, and nothing else refers to them while the
    /// block runs.
    pub(in crate::kernel) out: *mut E,
    pub(in crate::kernel) out_row: usize,
    pub(in crate::kernel) out_column: usize,
    /// What the next block of this thread will read.
    pub(super) ahead: [Ahead<'a, E>; 2],
}

/// Whether steps this long meet in few places of the first-level cache.
pub(super) fn lies_far_apart<E>(step: usize) -> bool {
    step.saturating_mul(size_of::<E>()) >= FAR_APART
}

/// A matrix to be fetched, bit by bit, while a block is computed. Its memory need not exist.
#[derive(Clone, Copy)]
pub(super) struct Ahead<'a, E> {
    matrix: Matrix<'a, E>,
    rows: usize,
    columns: usize,
}

impl<'a, E: Float> Ahead<'a, E> {
    /// Nothing.
    pub(super) const NONE: Self =
        Ahead { matrix: Matrix { data: &[], at: 0, row: 0, column: 0 }, rows: 0, columns: 0 };

    /// A matrix, if its rows or its columns are pieces of memory.
    pub(super) fn of(matrix: Matrix<'a, E>, (rows, columns): (usize, usize)) -> Self {
        match (matrix.row, matrix.column) {
            (_, 1) => Ahead { matrix, rows, columns },
            (1, _) => Ahead { matrix: matrix.transposed(), rows: columns, columns: rows },
            _ => Self::NONE,
        }
    }

    /// Fetches part `i` of `parts`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    #[inline(always)]
    unsafe fn fetch<V: Vector>(&self, i: usize, parts: usize) {
        let each = self.rows.div_ceil(parts);
        for row in i * each..self.rows.min((i + 1) * each) {
            let line = self.matrix.data.as_ptr().wrapping_add(self.matrix.from(row, 0).at);
            // SAFETY: the caller's.
            unsafe { prefetch::<E, V>(line, self.columns) };
        }
    }
}

impl<E: Float> Kernel<E::Wide> for Block<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let width = columns::<V>();
        let (panels, tiles) = (self.columns.div_ceil(width), self.rows.div_ceil(V::ROWS));
        let tile_len = V::ROWS * width;
        let least = COLUMNS_TO_PACK_A[usize::from(lies_far_apart::<E>(self.a.column))];
        let in_place =
            E::as_wide(self.a.data).filter(|_| self.a.column == 1 || self.columns < least);
        let chunk = even(self.k, K_CHUNK);
        let step = even(chunk, PART / (width * size_of::<V::Scalar>()));
        let sums_panels = if chunk < self.k { panels } else { 1 };
        // Halves in rows are made wide row by row, and stay rows.
        let in_rows =
            self.k > 0 && in_place.is_none() && self.a.column == 1 && E::as_wide(&[]).is_none();
        let a_row = chunk + LINE / size_of::<V::Scalar>();
        let a_len = match in_place {
            Some(_) => 0,
            None if in_rows => self.rows * a_row,
            None => tiles * V::ROWS * chunk,
        };
        let all = [sums_panels * tiles * tile_len, a_len, width * step].map(padded::<E::Wide>);
        let mut spare = Spare::<E::Wide>::take(all.iter().sum());
        let mut rest = &mut spare[..];
        let [sums, packed_a, packed_b] = all.map(|len| split(&mut rest, len));

        for start in (0..self.k.max(1)).step_by(chunk.max(1)) {
            let end = self.k.min(start + chunk);
            let a_part = self.a.from(0, start);
            let (a, a_row, a_k) = match in_place {
                Some(a) => (&a[a_part.at.min(a.len())..], a_part.row, a_part.column),
                None if in_rows => {
                    for (row, to) in packed_a.chunks_exact_mut(a_row).enumerate() {
                        let from = &a_part.data[a_part.from(row, 0).at..][..end - start];
                        // SAFETY: the instruction set is the caller's.
                        unsafe { widen::<E, V>(from, to) };
                    }
                    (&*packed_a, a_row, 1)
                }
                None => {
                    pack_rows(a_part, (self.rows, end - start), V::ROWS, packed_a, E::wide);
                    (&*packed_a, 1, V::ROWS)
                }
            };
            for panel in 0..panels {
                let sums = &mut sums[(panel % sums_panels) * tiles * tile_len..];
                for done in (start..end.max(1)).step_by(step.max(1)) {
                    let k = step.min(end - done);
                    // SAFETY: the instruction set is the caller's, the product's entry checked B.
                    let (b, b_k) = unsafe { self.panel::<V>(panel, (done, k), packed_b) };
                    for tile in 0..tiles {
                        let row = tile * V::ROWS;
                        let a_at = match in_place {
                            None if !in_rows => row * (end - start) + (done - start) * a_k,
                            _ => row * a_row + (done - start) * a_k,
                        };
                        let sums = &mut sums[tile * tile_len..][..tile_len];
                        let work = Tile {
                            k,
                            a: a[a_at.min(a.len())..].as_ptr(),
                            a_row,
                            a_k,
                            b: b.as_ptr(),
                            b_k,
                            sums: sums.as_mut_ptr(),
                            sums_row: width,
                            add: done > 0,
                            output: None,
                        };
                        let rows = row..self.rows.min(row + V::ROWS);
                        let last = done + k == self.k;
                        // SAFETY: the caller vouches for the instruction set. A: in place, the
                        // product's entry checked that the matrix lies within its buffer; packed,
                        // the panel has `ROWS` rows for each of `k`. B: `panel` gives `width`
                        // columns for each of `k`. The sums have a whole tile, initialized by the
                        // first part. Tile and panel lie within the block's rows and columns.
                        unsafe {
                            if tiles >= TILES_TO_FETCH_B {
                                fetch_next::<V>(b, b_k * k, (tile, tiles));
                            }
                            if done == 0 {
                                let i = panel * tiles + tile;
                                self.ahead.iter().for_each(|a| a.fetch::<V>(i, panels * tiles));
                            }
                            match last {
                                true => self.multiply_last::<V>(work, rows, panel * width),
                                false => work.multiply::<V>(rows.len()),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Fetches a tile's share of what follows a part of B of length `len`.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn fetch_next<V: Vector>(b: &[V::Scalar], len: usize, (tile, tiles): (usize, usize)) {
    let line = LINE / size_of::<V::Scalar>();
    let share = len.div_ceil(tiles).next_multiple_of(line);
    // SAFETY: the caller's.
    unsafe { prefetch::<_, V>(b.as_ptr().wrapping_add(len + tile * share), share) };
}

/// The length of equal pieces, none longer than `most`.
fn even(n: usize, most: usize) -> usize {
    n.div_ceil(n.div_ceil(most).max(1))
}

impl<E: Float> Block<'_, E> {
    /// Does a tile's last part, and writes it to the output.
    ///
    /// # Safety
    ///
    /// As for [`Tile::multiply`]; the block has these rows, and columns from `column` on.
    #[inline(always)]
    unsafe fn multiply_last<V: Vector<Scalar = E::Wide>>(
        &self,
        mut work: Tile<E::Wide>,
        rows: Range<usize>,
        column: usize,
    ) {
        let width = columns::<V>();
        let columns = width.min(self.columns - column);
        let bias = self.bias.map(|bias| &bias[column..column + columns]);
        // SAFETY: the block's output can be written for its rows and columns, the bias read for its
        // columns; the sums are a whole tile.
        unsafe {
            let out = self.out.add(rows.start * self.out_row + column * self.out_column);
            if let Some(wide) = E::as_wide(bias.unwrap_or(&[]))
                && columns == width
                && self.out_column == 1
            {
                let to = out.cast::<E::Wide>();
                for row in 0..rows.len() {
                    V::prefetch(to.wrapping_add(row * self.out_row));
                    V::prefetch(to.wrapping_add(row * self.out_row + width - 1));
                }
                let bias = bias.map(|_| wide.as_ptr());
                work.output = Some(Output { to, row: self.out_row, bias });
                return work.multiply::<V>(rows.len());
            }
            work.multiply::<V>(rows.len());
            let sums = std::slice::from_raw_parts(work.sums, rows.len() * width);
            for (i, sums) in sums.chunks_exact(width).enumerate() {
                if columns == width && self.out_column == 1 {
                    let to = out.add(i * self.out_row);
                    for at in (0..width).step_by(V::LANES) {
                        let sum = V::load(sums.as_ptr().add(at));
                        let bias = bias.map(|bias| load::<E, V>(bias.as_ptr().add(at)));
                        store(bias.map_or(sum, |bias| sum.add(bias)), to.add(at));
                    }
                    continue;
                }
                self.finish_row(&sums[..columns], bias, out.add(i * self.out_row));
            }
        }
    }

    /// The part of a panel of B for `k` steps from `done` on: at least `width` columns for each, and
    /// the distance from one k to the next.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`, and B lies within its buffer.
    #[inline(always)]
    unsafe fn panel<'s, V: Vector<Scalar = E::Wide>>(
        &'s self,
        panel: usize,
        (done, k): (usize, usize),
        packed: &'s mut [E::Wide],
    ) -> (&'s [E::Wide], usize) {
        let width = columns::<V>();
        let columns = width.min(self.columns - panel * width);
        match self.b {
            Right::Panels(panels) => {
                let part = &panels[(panel * self.k + done) * width..][..k * width];
                if let Some(part) = E::as_wide(part) {
                    return (part, width);
                }
                // SAFETY: the caller's.
                unsafe { widen::<E, V>(part, packed) };
            }
            Right::Matrix(matrix) => {
                let part = matrix.from(done, panel * width);
                if part.column == 1
                    && columns == width
                    && self.rows < ROWS_TO_PACK_B
                    && let Some(wide) = E::as_wide(part.data)
                {
                    return (&wide[part.at.min(wide.len())..], part.row);
                }
                // SAFETY: the caller's.
                unsafe { pack_panel_wide::<V, E>(part, (k, columns), width, packed) };
            }
        }
        (packed, width)
    }

    /// Writes a row of finished sums.
    ///
    /// # Safety
    ///
    /// `out` can be written for all of `sums`, in steps of `out_column`.
    #[inline(always)]
    unsafe fn finish_row(&self, sums: &[E::Wide], bias: Option<&[E]>, out: *mut E) {
        for (i, &sum) in sums.iter().enumerate() {
            let sum = bias.map_or(sum, |bias| sum + bias[i].wide());
            // SAFETY: the caller's.
            unsafe { out.add(i * self.out_column).write(E::narrow(sum)) }
        }
    }
}
