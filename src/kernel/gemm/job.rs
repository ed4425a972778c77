//! A product that was checked, cut into blocks that threads share.

use super::block::{Ahead, Block, K_CHUNK, Right, lies_far_apart};
use super::pack::Matrix;
use super::{Epilogue, Order, pack_panels, panels_len};
use crate::element::Float;
use crate::kernel::layout::{Layout, View};
use crate::kernel::parallel::for_each;
use crate::kernel::runs::Runs;
use crate::kernel::scratch::{KEPT, LINE, Spare};
use crate::kernel::simd::{Isa, Lanes};
use crate::kernel::tiles;
use std::mem::MaybeUninit;
use std::ops::Range;

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

/// A checked product: the left-hand side, the sizes, and where it goes.
pub(super) struct Job<'a, E> {
    isa: Isa,
    a: View<'a, E>,
    pub(super) m: usize,
    k: usize,
    n: usize,
    epilogue: Epilogue<'a, E>,
    out: *mut E,
    layout: Layout,
    /// `layout` without the matrices' axes.
    pub(super) starts: Layout,
}

// SAFETY: threads share a job to write blocks that are disjoint, see `Job::block`; elements are
// `Send` and `Sync`.
unsafe impl<E: Float> Sync for Job<'_, E> {}

impl<'a, E: Float> Job<'a, E> {
    /// `None` where there is nothing to write. Everything that `unsafe` code below relies on is
    /// asserted here.
    pub(super) fn new(
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
    pub(super) fn folded(mut self, repeats: impl Fn(usize) -> bool) -> Self {
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
    pub(super) fn product(&self, i: usize) -> Self {
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
    pub(super) fn run_matrix(&self, b: Matrix<E>) {
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

    pub(super) fn run_shared(&self, b: Right<E>) {
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
    pub(super) fn run_batch<'b>(&self, starts: &Layout, b: impl Fn(usize) -> Matrix<'b, E> + Sync)
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
        (rows, columns): (Range<usize>, Range<usize>),
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
