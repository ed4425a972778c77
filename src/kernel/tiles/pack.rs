//! Operands in the order in which tiles read them. Right-hand ones are panels of 32 columns, which are two
//! tiles, with two numbers of k side by side for each column, left-hand ones rows; what does not fill a tile
//! is filled up with 0.

use super::{DEPTH, OPERAND, SIDE, SIZE, depth};
use crate::kernel::gemm::Matrix;
use crate::kernel::simd::Vector;
use half::bf16;
use std::arch::x86_64::*;

/// Packs the `k` × `columns` matrix, at most 32 columns, as a panel of `depth(k)` · 32 numbers.
#[target_feature(enable = "avx512f")]
pub(super) fn pack_panel(from: Matrix<bf16>, (k, columns): (usize, usize), to: &mut [bf16]) {
    for (i, tile) in to[..depth(k) * SIZE[1]].chunks_exact_mut(OPERAND).enumerate() {
        let (first, column) = (i / 2 * DEPTH, i % 2 * SIDE);
        let size = (DEPTH.min(k - first), SIDE.min(columns.saturating_sub(column)));
        pack_tile(from.from(first, column), size, tile);
    }
}

/// Packs the `k` × `columns` matrix, which is no larger than a tile, the rest 0.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn pack_tile(from: Matrix<bf16>, (k, columns): (usize, usize), to: &mut [bf16]) {
    let to = &mut to[..OPERAND];
    let whole = k == DEPTH && columns == SIDE;
    if whole && from.column == 1 {
        let at = from.data[from.at..][..(DEPTH - 1) * from.row + SIDE].as_ptr();
        // SAFETY: there are 32 rows of 16 numbers, and room for a tile.
        unsafe { interleave(at, from.row, to.as_mut_ptr()) };
    } else if whole && from.row == 1 && from.column.is_multiple_of(2) {
        let at = from.data[from.at..][..(SIDE - 1) * from.column + DEPTH].as_ptr();
        // SAFETY: there are 16 columns of 32 numbers, and room for a tile. Pairs of numbers are moved as
        // numbers of 32 bits, of which loads and stores of any alignment keep every bit.
        unsafe { __m512::transpose(at.cast(), from.column / 2, to.as_mut_ptr().cast(), SIDE) };
    } else {
        to.fill(bf16::ZERO);
        for p in 0..k {
            for column in 0..columns {
                to[p / 2 * DEPTH + 2 * column + p % 2] = from.data[from.from(p, column).at];
            }
        }
    }
}

/// Packs the `rows` × `columns` matrix transposed, 16 columns and 32 rows at a time.
#[target_feature(enable = "avx512f")]
pub(super) fn pack_transposed(
    from: Matrix<bf16>,
    (rows, columns): (usize, usize),
    to: &mut [bf16],
) {
    let depth = depth(rows);
    let mut pairs = Aligned([bf16::ZERO; OPERAND]);
    for (i, to) in to.chunks_exact_mut((SIDE * depth).max(1)).enumerate() {
        for first in (0..rows).step_by(DEPTH) {
            let size = (DEPTH.min(rows - first), SIDE.min(columns.saturating_sub(i * SIDE)));
            pack_tile(from.from(first, i * SIDE), size, &mut pairs.0);
            let to = to[first..].as_mut_ptr();
            // SAFETY: pairs of rows, which a tile holds side by side, are moved as numbers of 32 bits: 16 rows
            // of pairs of 16 columns become 16 rows of 16 pairs, of the 16 rows of `depth` numbers at `to`.
            unsafe { __m512::transpose(pairs.0.as_ptr().cast(), SIDE, to.cast(), depth / 2) };
        }
    }
}

/// Copies the `rows` × `k` matrix to rows of `depth(k)` numbers, the rest 0.
#[target_feature(enable = "avx512f")]
pub(super) fn copy_rows(from: Matrix<bf16>, (rows, k): (usize, usize), to: &mut [bf16]) {
    let (depth, whole) = (depth(k).max(1), if from.column == 1 { k / DEPTH * DEPTH } else { 0 });
    let (copied, empty) = to.split_at_mut(to.len().min(rows * depth));
    for (row, to) in copied.chunks_exact_mut(depth).enumerate() {
        let (vectors, rest) = to.split_at_mut(whole);
        let vectors = vectors.chunks_exact_mut(DEPTH).enumerate();
        for (i, to) in vectors {
            let from = from.data[from.from(row, i * DEPTH).at..][..DEPTH].as_ptr();
            // SAFETY: both have 32 numbers.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_loadu_si512(from.cast())) };
        }
        for (i, to) in rest.iter_mut().enumerate() {
            let column = whole + i;
            *to = if column < k { from.data[from.from(row, column).at] } else { bf16::ZERO };
        }
    }
    empty.fill(bf16::ZERO);
}

/// Packs rows of `width` numbers, rounded: pairs of rows side by side, as [`pack_tile`] does.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) fn pack_rounded(from: &[f32], (rows, width): (usize, usize), to: &mut [bf16]) {
    assert!(width.is_multiple_of(SIZE[1]) && from.len() >= rows * width);
    // From 16 numbers of one row and 16 of the next to pairs.
    const PAIRS: [u16; DEPTH] = {
        let mut order = [0; DEPTH];
        let (mut pair, mut first) = (0, 0);
        while pair < SIDE {
            (order[2 * pair], order[2 * pair + 1]) = (first, first + 16);
            (pair, first) = (pair + 1, first + 1);
        }
        order
    };
    let depth = depth(rows);
    for (panel, to) in to[..depth * width].chunks_exact_mut(SIZE[1] * depth).enumerate() {
        for (pair, to) in to.chunks_exact_mut(DEPTH).enumerate() {
            // The tiles of 32 rows follow each other, two for each.
            let (tile, row) = (pair / SIDE, pair / DEPTH * DEPTH + pair % SIDE * 2);
            let column = panel * SIZE[1] + tile % 2 * SIDE;
            // SAFETY: a row has 16 numbers from there on; a pair of rows is 32 numbers of 16 bits.
            unsafe {
                let load = |row: usize| match row < rows {
                    true => _mm512_loadu_ps(from[row * width + column..][..SIDE].as_ptr()),
                    false => _mm512_setzero_ps(),
                };
                let order = _mm512_loadu_si512(PAIRS.as_ptr().cast());
                let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(
                    load(row + 1),
                    load(row),
                ));
                _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_permutexvar_epi16(order, both));
            }
        }
    }
}

/// A tile on a line of the cache.
#[repr(align(64))]
struct Aligned([bf16; OPERAND]);

/// Packs 32 rows of 16 numbers that are neighbours.
///
/// # Safety
///
/// The processor has AVX-512F; there are such rows, and a tile at `to`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn interleave(from: *const bf16, row: usize, to: *mut bf16) {
    // SAFETY: the caller's.
    unsafe {
        for pair in 0..SIDE {
            let load =
                |p: usize| _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.add(p * row).cast()));
            let (low, high) = (load(2 * pair), load(2 * pair + 1));
            let both = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
            _mm512_storeu_si512(to.add(pair * DEPTH).cast(), both);
        }
    }
}
