//! The products of a block, and the rows that they read.

use super::head::Group;
use crate::element::Float;
use crate::kernel::gemm::{Matrix, pack_panel};
use crate::kernel::simd::Vector;
use crate::kernel::tile::{Tile, columns, multiply_tiles};
use num_traits::{Float as _, Zero};

/// Writes the products of `keys` rows with a group's panels, of `width` columns in all.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there are such rows and panels, and room for them.
#[inline(always)]
pub(super) unsafe fn multiply_keys<V: Vector>(
    (rows, n): (&[V::Scalar], usize),
    keys: usize,
    (panels, width): (&[V::Scalar], usize),
    to: &mut [V::Scalar],
) {
    let step = columns::<V>();
    let tile = |key: usize, query: usize| Tile {
        k: n,
        a: rows[key * n..].as_ptr(),
        a_row: n,
        a_k: 1,
        b: panels[query * n..].as_ptr(),
        b_k: step,
        sums: to[key * width + query..].as_mut_ptr(),
        sums_row: width,
        add: false,
        output: None,
    };
    // SAFETY: the caller's.
    unsafe { multiply_tiles::<V>(keys, width, tile) }
}

/// Writes a matrix of `count` rows of `n` columns in panels of `step` columns and `rows` rows; what is not
/// finite becomes 0.
#[inline(always)]
pub(super) fn pack_rows<E: Float>(
    from: Matrix<E>,
    (count, n): (usize, usize),
    (step, rows): (usize, usize),
    to: &mut [E::Wide],
) {
    for column in (0..n).step_by(step) {
        let panel = &mut to[column * rows..];
        pack_panel(from.from(0, column), (count, step.min(n - column)), step, panel, |x: E| {
            let x = x.wide();
            if x.is_finite() { x } else { E::Wide::zero() }
        });
    }
}

/// Adds to a row for each key the products of its row of a block, over queries, with a group's rows.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the panels have `row` columns and the group's width of
/// rows, and there are sums of `row` columns for each key.
#[inline(always)]
pub(super) unsafe fn add_by_key<V: Vector>(
    block: &[V::Scalar],
    width: usize,
    group: &Group<V::Scalar>,
    (panels, row): (&[V::Scalar], usize),
    sums: &mut [V::Scalar],
) {
    let tile = |key: usize, column: usize| Tile {
        k: group.queries.len(),
        a: block[key * width..].as_ptr(),
        a_row: width,
        a_k: 1,
        b: panels[column * width..].as_ptr(),
        b_k: columns::<V>(),
        sums: sums[key * row + column..].as_mut_ptr(),
        sums_row: row,
        add: true,
        output: None,
    };
    // SAFETY: the caller's.
    unsafe { multiply_tiles::<V>(block.len() / width, row, tile) }
}

/// Adds to the row of each query of a group the products of its column of a block, over keys, with rows of
/// the keys.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the panels have `row` columns and `keys` rows, and there
/// are sums of `row` columns for each query.
#[inline(always)]
pub(super) unsafe fn add_by_query<V: Vector>(
    block: &[V::Scalar],
    keys: usize,
    group: &mut Group<V::Scalar>,
    (panels, row): (&[V::Scalar], usize),
) {
    let (a_k, queries) = (group.width, group.queries.len());
    let tile = |query: usize, column: usize| Tile {
        k: keys,
        a: block[query..].as_ptr(),
        a_row: 1,
        a_k,
        b: panels[column * keys..].as_ptr(),
        b_k: columns::<V>(),
        sums: group.d_q[query * row + column..].as_mut_ptr(),
        sums_row: row,
        add: true,
        output: None,
    };
    // SAFETY: the caller's.
    unsafe { multiply_tiles::<V>(queries, row, tile) }
}
