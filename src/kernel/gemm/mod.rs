//! The batched matrix product C[b] = A[b] · B[b] + bias.
//!
//! A product is cut into blocks of rows and columns by sizes alone, and the blocks are spread over
//! the threads ([`block`] does one). Batch axes along which B repeats are rows of one long product
//! wherever the strides of A and C allow it. B is packed once for all blocks that use it, beforehand
//! ([`pack_b`]) or at the start; where each block is the only user, the block packs it bit by bit.
//! Small products of a batch are one block each.
//!
//! Each sum runs over k in ascending order, from one end to the other, whatever the strides, the
//! block, the batch or the number of threads: so all of those give the same bits.

mod block;
mod pack;
#[cfg(test)]
mod tests;

pub(crate) use pack::{Matrix, copy_rows, pack_panel, pack_panel_wide};

use super::layout::{Layout, View};
#[cfg(test)]
use super::output::place;
use super::output::written;
use super::parallel::{for_each, for_each_chunk};
use super::runs::Runs;
use super::scratch::{Aligned, KEPT, LINE, Spare};
use super::simd::{Isa, Kernel, Lanes, Vector};
use super::tile;
use super::tiles;
use crate::element::Float;
use block::{Ahead, K_CHUNK, lies_far_apart};
pub(super) use block::{Block, Right};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Products of up to this many multiplications are not cut.
const SMALL: usize = 1 << 21;
/// The most rows of a block, and the most numbers of A in them: they stay in the second-level cache.
const BLOCK_ROWS: usize = 144;
const BLOCK_A: usize = 96 << 10;
/// The most columns of a block.
const BLOCK_COLUMNS: usize = 512;
/// Multiplications that are worth a block of their own, the least columns of one, and how many
/// blocks are enough for any number of threads.
const BLOCK_WORK: usize = 1 << 19;
const LEAST_COLUMNS: usize = 64;
const ENOUGH_BLOCKS: usize = 64;

/// The most bytes of panels that a product packs for itself at a time: what a thread keeps.
const MOST_PANELS: usize = KEPT - LINE;

/// Where a block packs its rows of A, that is for as many times more columns, if there remain so many blocks.
const PACKS_FOR: usize = 4;
const BLOCKS_THAT_PACK: usize = 8;

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

/// A checked product: the left-hand side, the sizes, and where it goes.
struct Job<'a, E> {
    isa: Isa,
    a: View<'a, E>,
    m: usize,
    k: usize,
    n: usize,
    epilogue: Epilogue<'a, E>,
    out: *mut E,
    layout: Layout,
    /// `layout` without the matrices' axes.
    starts: Layout,
}

// SAFETY: threads share a job to write blocks that are disjoint, see `Job::block`; elements are
// `Send` and `Sync`.
unsafe impl<E: Float> Sync for Job<'_, E> {}

impl<'a, E: Float> Job<'a, E> {
    /// `None` where there is nothing to write. Everything that `unsafe` code below relies on is
    /// asserted here.
    fn new(
        isa: Isa,
        (a, k, n): (View<'a, E>, usize, usize),
        epilogue: Epilogue<'a, E>,
        out: &'a mut [MaybeUninit<E>],
        layout: Layout,
    ) -> Option<Self> {
        let rank = a.layout.rank();
        let m = a.layout.dims[rank - 2];
        assert_eq!(a.layout.dims[rank - 1], k);
        assert_eq!(layout.dims, a.layout.dims.replaced(rank - 1, n));
        assert!(a.layout.extent() <= a.data.len());
        assert!(layout.extent() <= out.len() && layout.is_injective());
        assert!(epilogue.bias.is_none_or(|bias| bias.len() == n));
        assert!(epilogue.activation.is_none() || layout.strides[rank - 1] == 1 || n <= 1);
        let starts = layout.without_matrix();
        let out = out.as_mut_ptr().cast();
        (layout.count() > 0).then_some(Job { isa, a, m, k, n, epilogue, out, layout, starts })
    }

    /// The same product with the last batch axes as rows, as far as B `repeats` along them and
    /// strides allow.
    fn folded(mut self, repeats: impl Fn(usize) -> bool) -> Self {
        while self.a.layout.rank() > 2 {
            let axis = self.a.layout.rank() - 3;
            if !repeats(axis) {
                break;
            }
            let merged = (self.a.layout.merged(axis), self.layout.merged(axis));
            let (Some(a), Some(layout)) = merged else {
                break;
            };
            (self.a.layout, self.layout) = (a, layout);
            self.m = layout.dims[axis];
            self.starts = layout.without_matrix();
        }
        self
    }

    /// Product `i` of the batch alone.
    fn product(&self, i: usize) -> Self {
        let (mut a, mut layout) = (self.a, self.layout);
        while a.layout.rank() > 2 {
            let last = a.layout.rank() - 3;
            let inner: usize = a.layout.dims[1..=last].iter().product();
            let index = i / inner % a.layout.dims[0];
            (a.layout, layout) = (a.layout.at(0, index), layout.at(0, index));
        }
        Job { a, layout, starts: layout.without_matrix(), ..*self }
    }

    /// All products have the matrix `b`.
    fn run_matrix(&self, b: Matrix<E>) {
        if self.row_blocks() == 1 && self.starts.count() == 1 {
            self.run_shared(Right::Matrix(b));
        } else {
            // So many columns at a time that a thread keeps the memory of their panels.
            let step = Order::of::<E>(self.isa, self.k).columns;
            let column = panels_len::<E>(self.isa, (self.k, step)) / step;
            let most = (MOST_PANELS / size_of::<E>() / column.max(1) / step * step).max(step);
            let columns = self.n.div_ceil(self.n.div_ceil(most)).next_multiple_of(step);
            for start in (0..self.n).step_by(columns) {
                let part = self.part(start, columns.min(self.n - start));
                let mut panels = Spare::take(panels_len::<E>(self.isa, (self.k, part.n)));
                pack_panels(self.isa, b.from(0, start), (self.k, part.n), &mut panels);
                part.run_shared(Right::Panels(&panels));
            }
        }
    }

    /// The product's columns from `start` on alone.
    fn part(&self, start: usize, n: usize) -> Self {
        let layout = self.layout.sliced(self.layout.rank() - 1, start, n);
        let bias = self.epilogue.bias.map(|bias| &bias[start..start + n]);
        let epilogue = Epilogue { bias, ..self.epilogue };
        Job { n, epilogue, layout, starts: layout.without_matrix(), ..*self }
    }

    /// How many blocks the rows are cut into.
    fn row_blocks(&self) -> usize {
        let most = (BLOCK_A / self.k.clamp(1, K_CHUNK)).min(BLOCK_ROWS);
        self.m.div_ceil(most)
    }

    /// The least columns of a block, given how many blocks there are without cutting columns.
    fn least_columns(&self, blocks: usize) -> usize {
        let strides = self.a.layout.strides;
        let more = PACKS_FOR * LEAST_COLUMNS;
        let packs = lies_far_apart::<E>(strides[strides.len() - 1]);
        match packs && blocks * (self.n / more) >= BLOCKS_THAT_PACK {
            true => more,
            false => LEAST_COLUMNS,
        }
    }

    fn run_shared(&self, b: Right<E>) {
        let order = Order::of::<E>(self.isa, self.k);
        let products = self.starts.count();
        let even = |n: usize, blocks: usize, step| n.div_ceil(blocks).next_multiple_of(step);
        let rows = even(self.m, self.row_blocks(), order.rows);
        let row_blocks = self.m.div_ceil(rows);
        let work = self.m * self.n * self.k.max(1);
        let wanted = (products * work / BLOCK_WORK).clamp(1, ENOUGH_BLOCKS);
        let column_blocks = wanted
            .div_ceil(products * row_blocks)
            .min(self.n.div_ceil(self.least_columns(products * row_blocks)))
            .max(self.n.div_ceil(BLOCK_COLUMNS));
        let columns = even(self.n, column_blocks, order.columns);
        let column_blocks = self.n.div_ceil(columns);
        let places = Runs::new([&self.a.layout.without_matrix(), &self.starts]);
        for_each(products * row_blocks * column_blocks, products * work, |i| {
            let (i, column) = (i / column_blocks, i % column_blocks * columns);
            let (product, row) = (i / row_blocks, i % row_blocks * rows);
            let rows = row..self.m.min(row + rows);
            let b = match b {
                Right::Panels(panels) => Right::Panels(&panels[column * order.depth..]),
                Right::Matrix(matrix) => Right::Matrix(matrix.from(0, column)),
            };
            let columns = column..self.n.min(column + columns);
            places.for_each(product, 1, |[a, out], _| {
                self.run_block(self.block(a, b, out, (rows.clone(), columns.clone())));
            });
        });
    }

    /// One block for each product of the batch.
    fn run_batch<'b>(&self, starts: &Layout, b: impl Fn(usize) -> Matrix<'b, E> + Sync)
    where
        'a: 'b,
    {
        let places = Runs::new([&self.a.layout.without_matrix(), starts, &self.starts]);
        let products = self.starts.count();
        let each = self.m * self.n * self.k.max(1);
        let together = (BLOCK_WORK / 8).div_ceil(each);
        let steps = places.steps();
        for_each(products.div_ceil(together), products * each, |i| {
            let first = i * together;
            places.for_each(first, together.min(products - first), |at, count| {
                for i in 0..count {
                    let [a, at, out, next_a, next_b] =
                        [(0, i), (1, i), (2, i), (0, i + 1), (1, i + 1)]
                            .map(|(n, i)| at[n] + i * steps[n]);
                    let all = (0..self.m, 0..self.n);
                    let mut block = self.block(a, Right::Matrix(b(at)), out, all);
                    let next = Matrix { at: next_a, ..block.a };
                    block.ahead =
                        [Ahead::of(next, (self.m, self.k)), Ahead::of(b(next_b), (self.k, self.n))];
                    self.run_block(block);
                }
            });
        });
    }

    fn run_block(&self, block: Block<E>) {
        let Block { out, out_row, rows, columns, .. } = block;
        match tiles::multiply::<E>(self.isa) {
            // SAFETY: a job's blocks are as `Block` says, and panels packed for the job's set.
            true => unsafe { tiles::multiply_block(self.isa, &block) },
            false => E::Wide::vectorized(self.isa, block),
        }
        if let Some(activation) = self.epilogue.activation {
            for row in 0..rows {
                // SAFETY: the block has written the row, whose columns `Job::new` found to be
                // neighbours, and nothing else refers to it.
                activation(unsafe {
                    std::slice::from_raw_parts_mut(out.add(row * out_row), columns)
                });
            }
        }
    }

    /// The block of the product that starts at `a` and `out`. `b` starts at the block's columns.
    fn block<'b>(
        &'b self,
        a: usize,
        b: Right<'b, E>,
        out: usize,
        (rows, columns): (std::ops::Range<usize>, std::ops::Range<usize>),
    ) -> Block<'b, E> {
        let [a_strides, out_strides] = [&self.a.layout, &self.layout].map(|layout| {
            let rank = layout.rank();
            [layout.strides[rank - 2], layout.strides[rank - 1]]
        });
        let a = Matrix { data: self.a.data, at: a, row: a_strides[0], column: a_strides[1] };
        let at = out + rows.start * out_strides[0] + columns.start * out_strides[1];
        Block {
            rows: rows.len(),
            columns: columns.len(),
            k: self.k,
            a: a.from(rows.start, 0),
            b,
            bias: self.epilogue.bias.map(|bias| &bias[columns]),
            // SAFETY: `Job::new` checked that the layout lies within the output, to which it holds
            // the only reference, and that no two of its elements share a place; the callers give
            // disjoint blocks.
            out: unsafe { self.out.add(at) },
            out_row: out_strides[0],
            out_column: out_strides[1],
            ahead: [Ahead::NONE; 2],
        }
    }
}
