//! Rows of K and V as whole vectors, where they lie or copied.

use crate::element::Float;
use crate::kernel::gemm::{Matrix, copy_rows};
use crate::kernel::simd::Vector;

/// Rows of K or V in whole vectors.
#[derive(Clone, Copy)]
pub(super) struct Lines<R> {
    pub(super) at: *const R,
    /// From one row to the next.
    pub(super) row: usize,
}

/// The elements, where rows of `n` columns can be read in place: wide, next to one another, whole
/// vectors.
#[inline(always)]
pub(super) fn in_place<V: Vector, E: Float<Wide = V::Scalar>>(
    from: Matrix<'_, E>,
    n: usize,
) -> Option<&[V::Scalar]> {
    E::as_wide(from.data).filter(|_| from.column == 1 && n.is_multiple_of(V::LANES))
}

/// A matrix of `rows` rows of `n` columns as lines of whole vectors: in place, or copied with 0 after
/// the end of each.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn lines<V: Vector, E: Float<Wide = V::Scalar>>(
    from: Matrix<'_, E>,
    (rows, n): (usize, usize),
    copy: &mut [V::Scalar],
) -> Lines<V::Scalar> {
    if let Some(wide) = in_place::<V, E>(from, n) {
        return Lines { at: wide.as_ptr().wrapping_add(from.at), row: from.row };
    }
    let row = n.next_multiple_of(V::LANES);
    // SAFETY: the caller's.
    unsafe { copy_rows::<E, V>(from, (rows, n), row, copy) };
    Lines { at: copy.as_ptr(), row }
}
