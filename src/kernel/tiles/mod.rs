//! Products of bfloat16 in tiles, where the processor has them (AMX, [`amx`]).
//!
//! The right-hand side of a product is packed in another order than for vectors ([`pack`]), and what a
//! row and a column give is rounded otherwise in its last digits: sums take two products at a time, and
//! numbers too small to be normal count as 0. Both depend on the row and the column alone.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(test)]
mod tests;

use super::gemm::{Block, Matrix};
use super::simd::Isa;
use crate::element::Float;
#[cfg(target_arch = "x86_64")]
pub(super) use amx::detected;
use half::bf16;
use std::any::TypeId;

/// Rows of a tile, and numbers of 32 bits in one.
const SIDE: usize = 16;
/// Numbers of k in a row of the left-hand tile.
pub(super) const DEPTH: usize = 32;
/// Numbers in a tile of operands.
const OPERAND: usize = SIDE * DEPTH;
/// Rows and columns that the tiles of one product cover.
pub(super) const SIZE: [usize; 2] = [2 * SIDE; 2];

/// Whether products of `E` are made in tiles.
pub(super) fn multiply<E: Float>(isa: Isa) -> bool {
    isa.has_tiles() && TypeId::of::<E>() == TypeId::of::<bf16>()
}

/// K as it is packed.
pub(super) const fn depth(k: usize) -> usize {
    k.next_multiple_of(DEPTH)
}

/// A slice of one type as one of the same type, where only the caller knows that it is the same.
fn same<E: 'static, T: 'static>(slice: &[E]) -> &[T] {
    assert!(TypeId::of::<E>() == TypeId::of::<T>());
    // SAFETY: the types are the same.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), slice.len()) }
}

/// As [`same`], to be changed.
fn same_mut<E: 'static, T: 'static>(slice: &mut [E]) -> &mut [T] {
    assert!(TypeId::of::<E>() == TypeId::of::<T>());
    // SAFETY: the types are the same.
    unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), slice.len()) }
}

fn halves<'a, E: Float>(matrix: Matrix<'a, E>) -> Matrix<'a, bf16> {
    let Matrix { data, at, row, column } = matrix;
    Matrix { data: same(data), at, row, column }
}

/// Calls a function on bfloat16; panics where products of `E` are not made in tiles.
macro_rules! in_tiles {
    ($isa:ident, $E:ident, $call:expr) => {{
        assert!(multiply::<$E>($isa));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has tiles, and AVX-512 with all that `detected` asks for beside them. Packing
        // needs no more than that; of a product the rest is the caller's.
        unsafe {
            $call
        }
    }};
}

/// Packs the `k` × `columns` matrix, at most 32 columns, as a panel of `depth(k)` · 32 numbers.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) fn pack_panel<E: Float>(isa: Isa, b: Matrix<E>, size: (usize, usize), to: &mut [E]) {
    in_tiles!(isa, E, pack::pack_panel(halves(b), size, same_mut(to)));
}

/// Copies the `rows` × `k` matrix as a left-hand side: as many rows of `depth(k)` numbers as fill `to`, 0
/// where the matrix has none.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) fn copy_rows<E: Float>(isa: Isa, from: Matrix<E>, size: (usize, usize), to: &mut [E]) {
    in_tiles!(isa, E, pack::copy_rows(halves(from), size, same_mut(to)));
}

/// Packs the `rows` × `columns` matrix transposed, as a left-hand side: as many rows of `depth(rows)`
/// numbers as fill `to`, 0 where the matrix has none.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) fn pack_transposed<E: Float>(
    isa: Isa,
    from: Matrix<E>,
    size: (usize, usize),
    to: &mut [E],
) {
    in_tiles!(isa, E, pack::pack_transposed(halves(from), size, same_mut(to)));
}

/// Packs `rows` rows of `width` numbers in f32, rounded, as panels of `depth(rows)` · 32 numbers each.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) fn pack_rounded<E: Float>(
    isa: Isa,
    from: &[E::Wide],
    (rows, width): (usize, usize),
    to: &mut [E],
) {
    in_tiles!(isa, E, pack::pack_rounded(same(from), (rows, width), same_mut(to)));
}

/// Computes a block.
///
/// # Safety
///
/// The block is as [`Block`] says, and its panels, if it has them, were packed by [`pack_panel`].
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) unsafe fn multiply_block<E: Float>(isa: Isa, block: &Block<E>) {
    // `E` is bfloat16, so the block is one of bfloat16.
    in_tiles!(isa, E, product::multiply_block(&*std::ptr::from_ref(block).cast()));
}

/// The tile registers of this thread, for products that follow each other.
pub(super) struct Tiles(#[cfg(target_arch = "x86_64")] amx::Tiles);

impl Tiles {
    /// # Safety
    ///
    /// This thread calls nothing else that uses tiles until these are dropped.
    ///
    /// # Panics
    ///
    /// If there are no tiles.
    pub(super) unsafe fn hold(isa: Isa) -> Self {
        assert!(isa.has_tiles());
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has tiles; that nothing else uses them is the caller's.
        return Tiles(unsafe { amx::Tiles::new() });
        #[cfg(not(target_arch = "x86_64"))]
        Tiles()
    }

    /// Multiplies rows of `depth` numbers by panels of 32 columns: `sums`, a row of `width` for each of
    /// the rows, are written, or added to.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    #[inline(always)]
    pub(super) fn multiply<E: Float>(
        &self,
        of: Panels<E>,
        sums: &mut [E::Wide],
        width: usize,
        add: bool,
    ) {
        let Panels { rows, panels, depth, size } = of;
        let of = Panels { rows: same(rows), panels: same(panels), depth, size };
        #[cfg(target_arch = "x86_64")]
        product::multiply_panels(&self.0, of, same_mut(sums), width, add);
    }
}

/// Both sides of a product of panels.
pub(super) struct Panels<'a, E> {
    /// Rows of `depth` numbers.
    pub(super) rows: &'a [E],
    /// Panels of `depth` · 32 numbers.
    pub(super) panels: &'a [E],
    pub(super) depth: usize,
    /// For a panel, the rows that are wanted, and how many of the `depth` numbers are not 0.
    pub(super) size: &'a dyn Fn(usize) -> [usize; 2],
}
