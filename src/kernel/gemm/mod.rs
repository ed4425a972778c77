//! The batched matrix product C[b] = A[b] · B[b] + bias.
//!
//! A product is cut into blocks of rows and columns by sizes alone, and the blocks are spread over
//! the threads ([`job`]; [`block`] does one). Batch axes along which B repeats are rows of one long product
//! wherever the strides of A and C allow it. B is packed once for all blocks that use it, beforehand
//! ([`pack_b`]) or at the start; where each block is the only user, the block packs it bit by bit.
//! Small products of a batch are one block each.
//!
//! Each sum runs over k in ascending order, from one end to the other, whatever the strides, the
//! block, the batch or the number of threads: so all of those give the same bits.

mod block;
mod job;
mod pack;
#[cfg(test)]
mod tests;

pub(crate) use pack::{Matrix, copy_rows, pack_panel, pack_panel_wide};

use super::layout::{Layout, View};
#[cfg(test)]
use super::output::place;
use super::output::written;
use super::parallel::for_each_chunk;
use super::runs::Runs;
use super::scratch::Aligned;
use super::simd::{Isa, Kernel, Lanes, Vector};
use super::tile;
use super::tiles;
use crate::element::Float;
pub(super) use block::{Block, Right};
use job::Job;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Products of up to this many multiplications are not cut.
const SMALL: usize = 1 << 21;

/// What happens to a product on its way to the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epilogue<'a, E> {
    /// Added to every row: one number for each column.
    pub(crate) bias: Option<&'a [E]>,
    /// What becomes of the finished elements of a row, in their place, while they are in the cache.
    pub(crate) activation: Option<fn(&mut [E])>,
}

impl<'a, E> Epilogue<'a, E> {
    /// The product alone.
    #[cfg(test)]
    pub(crate) const NONE: Self = Epilogue { bias: None, activation: None };

    /// The product and a bias.
    pub(crate) fn bias(bias: Option<&'a [E]>) -> Self {
        Epilogue { bias, activation: None }
    }
}

/// The right-hand matrix of a product, K × N, in the order that the kernels read it.
#[derive(Clone, Debug)]
pub(crate) struct PackedB<E> {
    panels: Arc<Aligned<E>>,
    k: usize,
    n: usize,
    isa: Isa,
}

impl<E> PackedB<E> {
    /// K and N.
    pub(crate) fn dims(&self) -> (usize, usize) {
        (self.k, self.n)
    }
}

/// Packs the K × N matrix `b`, to be used in many products.
pub(crate) fn pack_b<E: Float>(b: View<E>) -> PackedB<E> {
    E::packed(Isa::best(), b)
}

/// C = A · B + bias for views of 2 to 6 axes whose leading axes are equal (stride 0 repeats a
/// matrix). C is in row-major order.
pub(crate) fn gemm<E: Float>(a: View<E>, b: View<E>, bias: Option<&[E]>) -> Vec<E> {
    let layout = product_layout(&a.layout, b.layout.dims[b.layout.rank() - 1]);
    let epilogue = Epilogue::bias(bias);
    // SAFETY: a product writes every element of its layout.
    unsafe { written(layout.count(), |out| E::product(Isa::best(), a, b, epilogue, out, &layout)) }
}

/// As [`gemm`], with `b` packed before. `a` has 1 to 6 axes, the last of size K.
pub(crate) fn gemm_packed<E: Float>(a: View<E>, b: &PackedB<E>, epilogue: Epilogue<E>) -> Vec<E> {
    let count = product_layout(&a.layout, b.n).count();
    // SAFETY: a product writes every element of its layout.
    unsafe { written(count, |out| gemm_packed_to(a, b, epilogue, out)) }
}

/// As [`gemm_packed`], to memory that is there: all of `out`, in row-major order.
pub(super) fn gemm_packed_to<E: Float>(
    a: View<E>,
    b: &PackedB<E>,
    epilogue: Epilogue<E>,
    out: &mut [MaybeUninit<E>],
) {
    let layout = product_layout(&a.layout, b.n);
    assert_eq!(layout.count(), out.len());
    E::packed_product(a, b, epilogue, out, &layout);
}

/// As [`gemm`] on an instruction set, to any place in `out`; no two elements of `layout` may share a place.
#[cfg(test)]
pub(crate) fn gemm_into<E: Float>(
    isa: Isa,
    a: View<E>,
    b: View<E>,
    epilogue: Epilogue<E>,
    out: &mut [E],
    layout: &Layout,
) {
    // SAFETY: a product writes numbers.
    gemm_on(isa, a, b, epilogue, unsafe { place(out) }, layout);
}

pub(super) fn packed_on<E: Float>(
    a: View<E>,
    b: &PackedB<E>,
    epilogue: Epilogue<E>,
    out: &mut [MaybeUninit<E>],
    layout: &Layout,
) {
    let (mut a, mut layout) = (a, *layout);
    if a.layout.rank() == 1 {
        (a.layout, layout) = (as_row(&a.layout), as_row(&layout));
    }
    let job = Job::new(b.isa, (a, b.k, b.n), epilogue, out, layout);
    if let Some(job) = job {
        let job = job.folded(|_| true);
        job.run_shared(Right::Panels(&b.panels));
    }
}

pub(super) fn gemm_on<E: Float>(
    isa: Isa,
    a: View<E>,
    b: View<E>,
    epilogue: Epilogue<E>,
    out: &mut [MaybeUninit<E>],
    layout: &Layout,
) {
    let rank = b.layout.rank();
    let (k, n) = (b.layout.dims[rank - 2], b.layout.dims[rank - 1]);
    assert_eq!(a.layout.dims[..rank - 2], b.layout.dims[..rank - 2]);
    assert!(b.layout.extent() <= b.data.len());
    let Some(job) = Job::new(isa, (a, k, n), epilogue, out, *layout) else {
        return;
    };
    let repeats = |axis: usize| b.layout.strides[axis] == 0 || b.layout.dims[axis] == 1;
    let job = job.folded(repeats);
    let mut starts = b.layout.without_matrix();
    while starts.rank() > job.starts.rank() {
        // Folded into the rows, because B repeats along it.
        let last = starts.rank() - 1;
        starts.dims = starts.dims.removed(last);
        starts.strides = starts.strides.removed(last);
    }
    let matrix = |at| Matrix {
        data: b.data,
        at,
        row: b.layout.strides[rank - 2],
        column: b.layout.strides[rank - 1],
    };
    if (0..rank - 2).all(repeats) {
        job.run_matrix(matrix(b.layout.offset));
    } else if job.m * n * k <= SMALL {
        job.run_batch(&starts, matrix);
    } else {
        let places = Runs::new([&starts]);
        let products = job.starts.count();
        for i in 0..products {
            places.for_each(i, 1, |[at], _| job.product(i).run_matrix(matrix(at)));
        }
    }
}

pub(super) fn pack_b_for<E: Float>(isa: Isa, b: View<E>) -> PackedB<E> {
    let (k, n) = (b.layout.dims[0], b.layout.dims[1]);
    let matrix = Matrix {
        data: b.data,
        at: b.layout.offset,
        row: b.layout.strides[0],
        column: b.layout.strides[1],
    };
    let mut panels = Aligned::new(panels_len::<E>(isa, (k, n)));
    pack_panels(isa, matrix, (k, n), &mut panels);
    PackedB { panels: Arc::new(panels), k, n, isa }
}

/// How long the panels of a K × N matrix are.
fn panels_len<E: Float>(isa: Isa, (k, n): (usize, usize)) -> usize {
    let Order { columns, depth, .. } = Order::of::<E>(isa, k);
    n.next_multiple_of(columns) * depth
}

fn pack_panels<E: Float>(isa: Isa, b: Matrix<E>, (k, n): (usize, usize), panels: &mut [E]) {
    let Order { columns: width, depth, tiled, .. } = Order::of::<E>(isa, k);
    for_each_chunk(panels, width * depth, 2 * n * k, |panel, to| {
        let (b, columns) = (b.from(0, panel * width), width.min(n - panel * width));
        match tiled {
            true => tiles::pack_panel(isa, b, (k, columns), to),
            false => pack_panel(b, (k, columns), width, to, |x| x),
        }
    });
}

fn product_layout(a: &Layout, n: usize) -> Layout {
    let last = a.rank() - 1;
    Layout::packed(&a.dims.replaced(last, n))
}

/// A vector as a matrix of one row.
fn as_row(layout: &Layout) -> Layout {
    Layout { dims: layout.dims.inserted(0, 1), strides: layout.strides.inserted(0, 0), ..*layout }
}

/// How a product is cut and its right-hand side packed.
#[derive(Clone, Copy)]
struct Order {
    /// Of a tile.
    rows: usize,
    columns: usize,
    /// K as it is packed.
    depth: usize,
    /// Whether AMX multiplies.
    tiled: bool,
}

impl Order {
    fn of<E: Float>(isa: Isa, k: usize) -> Self {
        if tiles::multiply::<E>(isa) {
            let [rows, columns] = tiles::SIZE;
            return Order { rows, columns, depth: tiles::depth(k), tiled: true };
        }
        let (rows, columns) = E::Wide::vectorized(isa, TileSize);
        Order { rows, columns, depth: k, tiled: false }
    }
}

/// The rows and columns of a tile in vectors.
struct TileSize;

impl<R> Kernel<R> for TileSize {
    type Output = (usize, usize);
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = R>>(self) -> (usize, usize) {
        (V::ROWS, tile::columns::<V>())
    }
}
