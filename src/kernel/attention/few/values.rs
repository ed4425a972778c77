//! Weights · V of a block of keys.

use super::lines::Lines;
use crate::element::Real;
use crate::kernel::simd::elements::prefetch;
use crate::kernel::simd::{MAX_LANES, Vector};
use num_traits::Zero;
use std::ops::Range;

/// The most rows of a tile.
const TILE: usize = 4;
/// Rows of V that are asked for before they are needed.
const AHEAD: usize = 12;

/// Whether lines have only finite numbers.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there are `rows` lines of `columns` columns.
#[inline(always)]
pub(super) unsafe fn is_finite<V: Vector>(
    lines: Lines<V::Scalar>,
    (rows, columns): (usize, usize),
) -> bool {
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
pub(super) struct Add<R> {
    /// A weight for each key, rows `width` apart.
    pub(super) weights: *const R,
    pub(super) width: usize,
    pub(super) values: Lines<R>,
    pub(super) keys: usize,
    /// Rows `row` apart of `columns` columns, whole vectors.
    pub(super) sums: *mut R,
    pub(super) row: usize,
    pub(super) columns: usize,
}

impl<R: Real> Add<R> {
    /// For all of `rows` rows.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; all is as [`Add`] says.
    #[inline(always)]
    pub(super) unsafe fn all<V: Vector<Scalar = R>>(&self, rows: usize) {
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
    pub(super) unsafe fn visible<V: Vector<Scalar = R>>(&self, row: usize) {
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
                    prefetch::<_, V>(line.wrapping_add(AHEAD * self.values.row), self.columns);
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
