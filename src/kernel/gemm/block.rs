//! One block of a product, on one thread.
//!
//! K is cut into steps of a fixed length. For each step the rows of A are packed, then for each
//! panel of B, which stays in the nearest cache, all tiles of the block go on summing. The sums live
//! in scratch between steps, wide; with the last step each tile is finished: bias, what the output
//! held, rounding, and the store to wherever the output lies. A is read in place, unpacked, where too
//! few columns would use the copy, and likewise B where too few rows would.

use super::pack::{Matrix, pack_panel_wide, pack_rows};
use crate::element::Float;
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::{Kernel, Vector};
use crate::kernel::tile::{Tile, columns};
use num_traits::Zero;

/// A panel of B this long and a panel of A fit the first-level cache together.
const K_STEP: usize = 384;
/// With fewer columns, A is not worth packing.
const COLUMNS_TO_PACK_A: usize = 192;
/// With fewer rows, B is not worth packing.
const ROWS_TO_PACK_B: usize = 24;

/// Where a block's part of B is.
#[derive(Clone, Copy)]
pub(super) enum Right<'a, E> {
    /// Panels of a tile's columns, each of all K, one after the other.
    Panels(&'a [E]),
    Matrix(Matrix<'a, E>),
}

/// `rows` × `columns` sums over `k`, and where they go.
pub(super) struct Block<'a, E> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) k: usize,
    pub(super) a: Matrix<'a, E>,
    pub(super) b: Right<'a, E>,
    /// One number for each of the columns.
    pub(super) bias: Option<&'a [E]>,
    pub(super) accumulate: bool,
    /// All rows and columns from here on can be written, and nothing else refers to them while the
    /// block runs.
    pub(super) out: *mut E,
    pub(super) out_row: usize,
    pub(super) out_column: usize,
}

impl<E: Float> Kernel<E::Wide> for Block<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let width = columns::<V>();
        let (panels, tiles) = (self.columns.div_ceil(width), self.rows.div_ceil(V::ROWS));
        let tile_len = V::ROWS * width;
        let in_place = E::as_wide(self.a.data).filter(|_| self.columns < COLUMNS_TO_PACK_A);
        let k_step = self.k.min(K_STEP);
        let sums_len = if self.k > K_STEP { panels * tiles * tile_len } else { tile_len };
        let a_len = if in_place.is_some() { 0 } else { tiles * V::ROWS * k_step };
        let b_len = width * k_step;
        let all = [sums_len, a_len, b_len].map(padded::<E::Wide>);
        let mut spare = Spare::<E::Wide>::take(all.iter().sum());
        let mut rest = &mut spare[..];
        let sums = split(&mut rest, sums_len);
        let packed_a = split(&mut rest, a_len);
        let packed_b = split(&mut rest, b_len);

        let mut done = 0;
        loop {
            let k = k_step.min(self.k - done);
            let last = done + k == self.k;
            let (a, a_row, a_k) = match in_place {
                Some(a) => (&a[self.a.from(0, done).at.min(a.len())..], self.a.row, self.a.column),
                None => {
                    pack_rows(self.a.from(0, done), (self.rows, k), V::ROWS, packed_a, E::wide);
                    (&*packed_a, 1, V::ROWS)
                }
            };
            for panel in 0..panels {
                // SAFETY: the instruction set is the caller's, the product's entry checked B.
                let (b, b_k) = unsafe { self.panel::<V>(panel, (done, k), packed_b) };
                for tile in 0..tiles {
                    let row = tile * V::ROWS;
                    let rows = V::ROWS.min(self.rows - row);
                    let sums = match self.k > K_STEP {
                        true => &mut sums[(panel * tiles + tile) * tile_len..][..tile_len],
                        false => &mut *sums,
                    };
                    let a_at = if in_place.is_some() { row * a_row } else { row * k };
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
                    };
                    // SAFETY: the caller vouches for the instruction set. A: in place, the product's
                    // entry checked that the matrix lies within its buffer; packed, the panel has
                    // `ROWS` rows for each of `k`. B: `panel` gives `width` columns for each of `k`.
                    // The sums have a whole tile, initialized by the first step.
                    unsafe { work.multiply::<V>(rows) };
                    if last {
                        // SAFETY: tile and panel lie within the block's rows and columns.
                        unsafe { self.finish(sums, width, (row, rows), panel * width) };
                    }
                }
            }
            done += k;
            if last {
                return;
            }
        }
    }
}

impl<E: Float> Block<'_, E> {
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
                packed.iter_mut().zip(part).for_each(|(to, x)| *to = x.wide());
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

    /// Writes the finished sums of a tile.
    ///
    /// # Safety
    ///
    /// The tile's rows and the columns from `column` on, as far as the block goes, can be written.
    #[inline(always)]
    unsafe fn finish(
        &self,
        sums: &[E::Wide],
        width: usize,
        (row, rows): (usize, usize),
        column: usize,
    ) {
        let columns = width.min(self.columns - column);
        let bias = self.bias.map(|bias| &bias[column..column + columns]);
        for (i, sums) in sums.chunks_exact(width).take(rows).enumerate() {
            // SAFETY: the caller's.
            unsafe {
                let out = self.out.add((row + i) * self.out_row + column * self.out_column);
                self.finish_row(&sums[..columns], bias, out);
            }
        }
    }

    /// # Safety
    ///
    /// `out` can be written for all of `sums`, in steps of `out_column`.
    #[inline(always)]
    unsafe fn finish_row(&self, sums: &[E::Wide], bias: Option<&[E]>, out: *mut E) {
        if self.out_column == 1 && !self.accumulate {
            // SAFETY: the caller's.
            let out = unsafe { std::slice::from_raw_parts_mut(out, sums.len()) };
            match bias {
                Some(bias) => {
                    for ((out, &sum), bias) in out.iter_mut().zip(sums).zip(bias) {
                        *out = E::narrow(sum + bias.wide());
                    }
                }
                None => {
                    for (out, &sum) in out.iter_mut().zip(sums) {
                        *out = E::narrow(sum);
                    }
                }
            }
            return;
        }
        for (i, &sum) in sums.iter().enumerate() {
            let sum = sum + bias.map_or(E::Wide::zero(), |bias| bias[i].wide());
            // SAFETY: the caller's.
            unsafe {
                let out = out.add(i * self.out_column);
                *out = E::narrow(if self.accumulate { (*out).wide() + sum } else { sum });
            }
        }
    }
}
