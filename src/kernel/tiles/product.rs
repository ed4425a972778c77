//! One block of a product in tiles.
//!
//! Two tiles of rows and two of columns go to the end of K at once, their sums in registers. Rows of the
//! left-hand matrix are read where they are; what does not fill a tile is copied and filled up with 0.

use super::amx::{Operands, Tiles, multiply_one, multiply_two};
use super::pack::{copy_rows, pack_panel};
use super::{DEPTH, Panels, SIDE, SIZE, depth};
use crate::kernel::gemm::{Block, Right};
use crate::kernel::scratch::{Spare, padded, split};
use half::bf16;
use std::arch::x86_64::*;

const ROWS: usize = SIZE[0];
const COLUMNS: usize = SIZE[1];

/// Computes a block.
///
/// # Safety
///
/// The processor has tiles, this thread holds none, and the block is as [`Block`] says, its panels
/// packed for tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn multiply_block(block: &Block<bf16>) {
    let Block { rows, columns, k, a, .. } = *block;
    let depth = depth(k);
    let in_place = a.column == 1 && depth == k && k > 0;
    // The rows that are copied.
    let first = if in_place { rows / ROWS * ROWS } else { 0 };
    let lens = [(rows - first).next_multiple_of(ROWS) * depth, depth * COLUMNS];
    let mut spare = Spare::<bf16>::take(lens.map(padded::<bf16>).iter().sum());
    let mut rest = &mut spare[..];
    let [packed_a, packed_b] = lens.map(|len| split(&mut rest, len));
    copy_rows(a.from(first, 0), (rows - first, k), packed_a);
    let mut sums = Spare::<f32>::take(ROWS * COLUMNS);
    // SAFETY: the caller's.
    let tiles = unsafe { Tiles::new() };
    for column in (0..columns).step_by(COLUMNS) {
        let width = COLUMNS.min(columns - column);
        let b = match block.b {
            Right::Panels(panels) => &panels[column * depth..][..COLUMNS * depth],
            Right::Matrix(matrix) => {
                pack_panel(matrix.from(0, column), (k, width), packed_b);
                &*packed_b
            }
        };
        for row in (0..rows).step_by(ROWS) {
            let (from, a_row) = match row < first {
                true => (a.data[a.from(row, 0).at..].as_ptr(), a.row),
                false => (packed_a[(row - first) * depth..].as_ptr(), depth),
            };
            let of = Operands {
                a: [from, from.wrapping_add(SIDE * a_row)],
                a_row,
                b: b.as_ptr(),
                steps: depth / DEPTH,
            };
            let height = ROWS.min(rows - row);
            // SAFETY: the registers are this thread's. In place, there are 32 rows of k numbers, as
            // the product's entry checked; copied, there are whole tiles. The panel has two tiles for
            // each step, the sums have 32 rows of 32. The block's output has these rows and columns.
            unsafe {
                match height > SIDE {
                    true => multiply_two(of, sums.as_mut_ptr(), COLUMNS, false),
                    false => multiply_one(of, sums.as_mut_ptr(), COLUMNS, false),
                }
                write(block, &sums, (row, height), (column, width));
            }
        }
    }
    drop(tiles);
}

/// Multiplies rows by panels.
pub(super) fn multiply_panels(
    _held: &Tiles,
    of: Panels<bf16>,
    sums: &mut [f32],
    width: usize,
    add: bool,
) {
    let Panels { rows: a, panels, depth, size } = of;
    assert!(depth.is_multiple_of(DEPTH) && width.is_multiple_of(COLUMNS));
    assert!(panels.len() >= depth * width);
    for panel in 0..width / COLUMNS {
        let b = &panels[panel * COLUMNS * depth..];
        let [rows, used] = size(panel);
        let all = rows.next_multiple_of(SIDE);
        assert!(a.len() >= all * depth && used <= depth && sums.len() >= all * width);
        for row in (0..rows).step_by(ROWS) {
            let from = a[row * depth..].as_ptr();
            let of = Operands {
                a: [from, from.wrapping_add(SIDE * depth)],
                a_row: depth,
                b: b.as_ptr(),
                steps: used.div_ceil(DEPTH),
            };
            let to = sums[row * width + panel * COLUMNS..].as_mut_ptr();
            // SAFETY: the registers are this thread's. There are whole tiles of rows of the left-hand
            // side and of the sums, a panel has two tiles for each step, and a row of sums 32 columns.
            unsafe {
                match rows - row > SIDE {
                    true => multiply_two(of, to, width, add),
                    false => multiply_one(of, to, width, add),
                }
            }
        }
    }
}

/// Adds the bias to finished sums, and rounds them to the output.
///
/// # Safety
///
/// The processor has AVX-512 with the instructions for bfloat16; the block has these rows and columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn write(
    block: &Block<bf16>,
    sums: &[f32],
    (row, rows): (usize, usize),
    (column, columns): (usize, usize),
) {
    let bias = block.bias.map(|bias| &bias[column..column + columns]);
    let out = block.out.wrapping_add(row * block.out_row + column * block.out_column);
    if columns == COLUMNS && block.out_column == 1 {
        // SAFETY: the bias has 32 numbers, as have rows of the sums and of the output.
        unsafe {
            let zero = _mm512_setzero_ps();
            let [low, high] = match bias {
                None => [zero; 2],
                Some(bias) => [widen(bias.as_ptr()), widen(bias[SIDE..].as_ptr())],
            };
            for (i, sums) in sums.chunks_exact(COLUMNS).take(rows).enumerate() {
                let a = _mm512_add_ps(_mm512_loadu_ps(sums.as_ptr()), low);
                let b = _mm512_add_ps(_mm512_loadu_ps(sums[SIDE..].as_ptr()), high);
                let rounded: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(b, a));
                _mm512_storeu_si512(out.add(i * block.out_row).cast(), rounded);
            }
        }
        return;
    }
    for (i, sums) in sums.chunks_exact(COLUMNS).take(rows).enumerate() {
        for (j, &sum) in sums[..columns].iter().enumerate() {
            let sum = bias.map_or(sum, |bias| sum + bias[j].to_f32());
            let to = out.wrapping_add(i * block.out_row + j * block.out_column);
            // SAFETY: the caller's. Rounded as whole rows are, subnormal numbers to 0.
            unsafe { to.write(round(sum)) }
        }
    }
}

/// As the instruction for whole vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn round(x: f32) -> bf16 {
    // SAFETY: both types are 16 numbers of 16 bits.
    let all: [bf16; 16] = unsafe { std::mem::transmute(_mm512_cvtneps_pbh(_mm512_set1_ps(x))) };
    all[0]
}

/// 16 numbers in f32.
///
/// # Safety
///
/// There are 16 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn widen(from: *const bf16) -> __m512 {
    // SAFETY: the caller's.
    let numbers = unsafe { _mm256_loadu_si256(from.cast()) };
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(numbers)))
}
