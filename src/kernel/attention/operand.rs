//! A block of keys and one of values, where tiles can read them fast.
//!
//! Rows of keys lie where they are, if they are close together; rows far apart, as those of one of
//! several heads, crowd into few sets of a cache and lie on as many pages as there are rows. Values
//! are copied to panels of a tile's columns, which several tiles read from end to end. With few
//! queries neither is worth a copy.

use super::block::Attend;
use crate::element::Float;
use crate::kernel::gemm::{Matrix, copy_rows, pack_panel};
use crate::kernel::simd::Vector;
use crate::kernel::simd::elements::load;
use crate::kernel::tile::columns;
use std::ops::Range;

/// Rows of K up to this many bytes apart are close together.
const NEAR: usize = 512;
/// Up to this many queries read keys too few times to be worth a copy.
const FEW: usize = 64;

/// Where a tile finds an operand: the distance from one key's row to the next, and from one column
/// (of K) or one tile's columns (of V) to the next.
#[derive(Clone, Copy)]
pub(super) struct Operand<R> {
    pub(super) at: *const R,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl<R> Operand<R> {
    /// Nothing.
    pub(super) const NONE: Self = Operand { at: std::ptr::null(), row: 0, column: 0 };
}

impl<E: Float> Attend<'_, E> {
    /// A block of keys, a row of D for each, in place or copied to `to`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn keys<V: Vector<Scalar = E::Wide>>(
        &self,
        keys: Range<usize>,
        to: &mut [E::Wide],
    ) -> Operand<E::Wide> {
        let from = self.k.from(keys.start, 0);
        if (from.row * size_of::<E>() <= NEAR || self.queries.len() <= FEW)
            && from.column == 1
            && let Some(at) = start(from)
        {
            return Operand { at, row: from.row, column: 1 };
        }
        // SAFETY: the caller's.
        unsafe { copy_rows::<E, V>(from, (keys.len(), self.d), self.d, to) };
        Operand { at: to.as_ptr(), row: self.d, column: 1 }
    }

    /// A block of V in place, or packed into `to` in panels of a tile's columns.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`, and V has these keys.
    #[inline(always)]
    pub(super) unsafe fn values<V: Vector<Scalar = E::Wide>>(
        &self,
        keys: Range<usize>,
        to: &mut [E::Wide],
    ) -> Operand<E::Wide> {
        let step = columns::<V>();
        let from = self.v.from(keys.start, 0);
        if self.queries.len() <= V::ROWS
            && from.column == 1
            && self.dv.is_multiple_of(step)
            && let Some(at) = start(from)
        {
            return Operand { at, row: from.row, column: step };
        }
        // SAFETY: the caller's.
        unsafe { self.pack_values::<V>(to, keys.clone()) };
        Operand { at: to.as_ptr(), row: step, column: keys.len() * step }
    }

    /// Copies a block of V row by row into panels of a tile's columns.
    #[inline(always)]
    unsafe fn pack_values<V: Vector<Scalar = E::Wide>>(
        &self,
        to: &mut [E::Wide],
        keys: Range<usize>,
    ) {
        let step = columns::<V>();
        let whole = if self.v.column == 1 { self.dv / step * step } else { 0 };
        for key in (0..keys.len()).filter(|_| whole > 0) {
            let row = &self.v.data[self.v.from(keys.start + key, 0).at..][..whole];
            let panels = to.chunks_exact_mut(keys.len() * step);
            for (from, to) in row.chunks_exact(step).zip(panels) {
                let to = &mut to[key * step..][..step];
                // SAFETY: the instruction set is the caller's; both have a tile's columns.
                unsafe {
                    load::<E, V>(from.as_ptr()).store(to.as_mut_ptr());
                    load::<E, V>(from[V::LANES..].as_ptr()).store(to[V::LANES..].as_mut_ptr());
                }
            }
        }
        for column in (whole..self.dv).step_by(step) {
            let from = self.v.from(keys.start, column);
            let columns = step.min(self.dv - column);
            pack_panel(from, (keys.len(), columns), step, &mut to[column * keys.len()..], E::wide);
        }
    }
}

/// Where the first element lies, if it takes no conversion.
#[inline(always)]
fn start<E: Float>(matrix: Matrix<E>) -> Option<*const E::Wide> {
    E::as_wide(matrix.data).map(|wide| wide[matrix.at.min(wide.len())..].as_ptr())
}
