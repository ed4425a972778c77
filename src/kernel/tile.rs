//! The innermost loop of every product: a few rows times two vectors of columns, kept in registers.
//!
//! Each sum starts from 0 or from what the output holds and takes one product for each k in
//! ascending order. So a sum does not depend on the rows and columns around it, on how K was cut,
//! or on where the operands lie.

use super::simd::Vector;
use crate::element::Real;

/// Vectors in a row of a tile.
const VECTORS: usize = 2;

/// Columns in a tile.
pub(super) const fn columns<V: Vector>() -> usize {
    VECTORS * V::LANES
}

/// Where a tile finds its operands and its sums. The distance from one k to the next is `a_k` and
/// `b_k`, from one row to the next `a_row` and `sums_row`; columns are neighbours.
pub(super) struct Tile<R> {
    pub(super) k: usize,
    pub(super) a: *const R,
    pub(super) a_row: usize,
    pub(super) a_k: usize,
    pub(super) b: *const R,
    pub(super) b_k: usize,
    pub(super) sums: *mut R,
    pub(super) sums_row: usize,
    /// Whether the products are added to the sums that are there.
    pub(super) add: bool,
    /// Where finished sums go in the place of `sums`.
    pub(super) output: Option<Output<R>>,
}

/// The place of a tile in the output, in numbers of the tile's own type.
#[derive(Clone, Copy)]
pub(super) struct Output<R> {
    pub(super) to: *mut R,
    pub(super) row: usize,
    /// A number for each column, added to the finished sums.
    pub(super) bias: Option<*const R>,
}

/// Multiplies all tiles of a product: `tile` gives the one that begins at a row and a column.
///
/// # Safety
///
/// The processor has the instruction set of `V`, and each tile is as [`Tile::multiply`] needs it.
#[inline(always)]
pub(super) unsafe fn multiply_tiles<V: Vector>(
    rows: usize,
    width: usize,
    mut tile: impl FnMut(usize, usize) -> Tile<V::Scalar>,
) {
    for column in (0..width).step_by(columns::<V>()) {
        for row in (0..rows).step_by(V::ROWS) {
            // SAFETY: the caller's.
            unsafe { tile(row, column).multiply::<V>(V::ROWS.min(rows - row)) }
        }
    }
}

impl<R: Real> Tile<R> {
    /// Multiplies `rows` rows, 1 to `V::ROWS`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`. For all rows, all k and all columns of a tile,
    /// `a`, `b` and the bias can be read and the output, or where there is none `sums`, written; with
    /// `add`, `sums` are initialized.
    #[inline(always)]
    pub(super) unsafe fn multiply<V: Vector<Scalar = R>>(&self, rows: usize) {
        // SAFETY: the caller's.
        unsafe {
            match rows {
                1 => self.multiply_rows::<V, 1>(),
                2 => self.multiply_rows::<V, 2>(),
                3 => self.multiply_rows::<V, 3>(),
                4 => self.multiply_rows::<V, 4>(),
                5 => self.multiply_rows::<V, 5>(),
                6 => self.multiply_rows::<V, 6>(),
                7 => self.multiply_rows::<V, 7>(),
                8 => self.multiply_rows::<V, 8>(),
                9 => self.multiply_rows::<V, 9>(),
                10 => self.multiply_rows::<V, 10>(),
                11 => self.multiply_rows::<V, 11>(),
                12 => self.multiply_rows::<V, 12>(),
                _ => unreachable!("more rows than a tile has"),
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply_rows<V: Vector<Scalar = R>, const M: usize>(&self) {
        // Known as a constant before code is made: none is, for rows that the set has no room for.
        if const { M > V::ROWS } {
            unreachable!("more rows than a tile has");
        }
        // SAFETY: the caller's, see `multiply`.
        unsafe {
            let mut sums = [[V::splat(R::zero()); VECTORS]; M];
            if self.add {
                for (row, sums) in sums.iter_mut().enumerate() {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = V::load(self.sums.add(row * self.sums_row + i * V::LANES));
                    }
                }
            }
            let mut b = self.b;
            // Without any k there may be no rows to point at; nothing is read there.
            let rows: [*const R; M] =
                std::array::from_fn(|row| self.a.wrapping_add(row * self.a_row));
            let mut at = 0;
            for _ in 0..self.k {
                let columns: [V; VECTORS] = [V::load(b), V::load(b.add(V::LANES))];
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let x = V::splat(*row.add(at));
                    for (sum, &column) in sums.iter_mut().zip(&columns) {
                        *sum = x.mul_add(column, *sum);
                    }
                }
                at += self.a_k;
                // The last step may leave B's memory; nothing is read there.
                b = b.wrapping_add(self.b_k);
            }
            let (mut to, mut to_row) = (self.sums, self.sums_row);
            if let Some(output) = &self.output {
                (to, to_row) = (output.to, output.row);
                if let Some(bias) = output.bias {
                    for i in 0..VECTORS {
                        let bias = V::load(bias.add(i * V::LANES));
                        sums.iter_mut().for_each(|sums| sums[i] = sums[i].add(bias));
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                for (i, sum) in sums.iter().enumerate() {
                    sum.store(to.add(row * to_row + i * V::LANES));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::simd::{Isa, Kernel, Lanes};
    use crate::kernel::testing::Rng;

    /// Multiplies small whole numbers, whose sums are exact, with every number of rows.
    struct EveryNumberOfRows;

    impl<R: Real> Kernel<R> for EveryNumberOfRows {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = R>>(self) {
            let mut rng = Rng::new(40);
            let mut whole = |count: usize| -> Vec<R> {
                (0..count).map(|_| R::from_f64(rng.below(17) as f64 - 8.0)).collect()
            };
            let (k, width) = (7, columns::<V>());
            let (b_k, sums_row) = (width + 3, width + 1);
            for rows in 1..=V::ROWS {
                for (a_row, a_k) in [(k + 2, 1), (1, V::ROWS)] {
                    for add in [false, true] {
                        let a = whole((rows - 1) * a_row + (k - 1) * a_k + 1);
                        let b = whole((k - 1) * b_k + width);
                        let before = whole((rows + 1) * sums_row);
                        let mut sums = before.clone();
                        let tile = Tile {
                            k,
                            a: a.as_ptr(),
                            a_row,
                            a_k,
                            b: b.as_ptr(),
                            b_k,
                            sums: sums.as_mut_ptr(),
                            sums_row,
                            add,
                            output: None,
                        };
                        // SAFETY: the caller vouches for the instruction set, the buffers were made
                        // for these strides.
                        unsafe { tile.multiply::<V>(rows) };
                        for (i, sum) in sums.iter().enumerate() {
                            let (row, column) = (i / sums_row, i % sums_row);
                            let mut expected = before[i];
                            if row < rows && column < width {
                                expected = if add { expected } else { R::zero() };
                                for p in 0..k {
                                    expected += a[row * a_row + p * a_k] * b[p * b_k + column];
                                }
                            }
                            assert!(*sum == expected, "{rows} rows: {row} {column}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_of_every_number_of_rows_are_exact_and_touch_nothing_else() {
        for isa in Isa::all() {
            f32::vectorized(isa, EveryNumberOfRows);
            f64::vectorized(isa, EveryNumberOfRows);
        }
    }
}
