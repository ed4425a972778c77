//! What the next block of keys or the next piece will read, fetched while a block is worked on.

use crate::kernel::gemm::Matrix;
use crate::kernel::simd::{Vector, elements};

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

/// Fetches what is ahead.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn fetch<V: Vector, E>(ahead: &Ahead<E>, [d, dv]: [usize; 2]) {
    for row in 0..ahead.rows {
        // SAFETY: the caller's.
        unsafe {
            prefetch::<V, E>(ahead.k.from(row, 0), d);
            prefetch::<V, E>(ahead.v.from(row, 0), dv);
        }
    }
    for row in 0..ahead.queries.min(ahead.rows) {
        // SAFETY: the caller's.
        unsafe { prefetch::<V, E>(ahead.q.from(row, 0), d) }
    }
}

/// Fetches the first row of a matrix, if it is one piece of memory: rows often lie too far apart for
/// the processor to foresee.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn prefetch<V: Vector, E>(matrix: Matrix<E>, columns: usize) {
    if matrix.column == 1 {
        // SAFETY: the caller's.
        unsafe { elements::prefetch::<E, V>(matrix.data.as_ptr().wrapping_add(matrix.at), columns) }
    }
}
