//! The gradients of one head of one batch entry, on one thread.
//!
//! Scores and their gradients are laid out key by key, as in the forward pass, so that what differs by
//! query is a vector. A block has four products: the scores again and dP, with queries as columns; dV and
//! dK, with keys as rows; and dQ, with queries as rows. Their left-hand sides are read from the block as
//! they lie, one way or the other; the right-hand sides are packed in panels of a tile's columns, those of
//! queries once for a group, those of keys once for a block.
//!
//! What is hidden has the weight 0 and the gradient 0, whatever its key or value holds: 0 · NaN would be
//! NaN, so numbers that are not finite are packed as 0. Where they are visible, the weight itself is NaN
//! and reaches every gradient that it should. A gradient of the output that is not finite reaches the
//! values that its query sees, through weights that become NaN.

mod finish;
mod scores;

use super::products::{add_by_key, add_by_query, multiply_keys, pack_rows};
use super::small::Small;
use super::{Forward, Given, Outputs, Pair, Sizes, place};
use crate::element::Float;
use crate::kernel::attention::block::group as group_of;
use crate::kernel::attention::head_mask::{HeadMask, Visible};
use crate::kernel::attention::{Place, rows_of};
use crate::kernel::gemm::{Matrix, pack_panel, pack_panel_wide};
use crate::kernel::scratch::{Spare, padded, split};
use crate::kernel::simd::{Kernel, Vector};
use crate::kernel::tile::columns;
use finish::write;
use num_traits::{Float as _, Zero};
use std::f64::consts::LOG2_E;
use std::ops::Range;

/// Queries in a group, where the mask has no blocks.
const GROUP: usize = 64;
/// Keys in a block.
const KEYS: usize = 64;

/// One head. The views are checked to lie within their buffers, and the outputs to have room for its rows.
pub(super) struct Head<'a, E: Float> {
    forward: &'a Forward<'a, E>,
    q: Matrix<'a, E>,
    k: Matrix<'a, E>,
    v: Matrix<'a, E>,
    /// The output and its gradient, of no columns where another is given.
    out: Matrix<'a, E>,
    d_out: Matrix<'a, E>,
    given: Given<'a, E>,
    log_sums: Option<[&'a [E::Wide]; 2]>,
    sizes: Sizes,
    place: Place,
    to: Outputs<E>,
    small: &'a Small,
    sums: &'a mut [E::Wide],
}

/// What belongs to a group of queries, rows over queries `width` long.
pub(super) struct Group<'s, R> {
    pub(super) queries: Range<usize>,
    pub(super) width: usize,
    /// Qᵀ · scale · log₂ e and dOᵀ in panels of a tile's columns.
    q: &'s mut [R],
    d_out: &'s mut [R],
    /// Q and dO, a row for each query, in panels of a tile's columns; what is not finite is 0.
    q_rows: &'s mut [R],
    d_out_rows: &'s mut [R],
    /// The binary logarithms of the sums, in two parts, and δ.
    maxima: &'s mut [R],
    log_sums: &'s mut [R],
    delta: &'s mut [R],
    /// Whether a query's row of dO is not finite.
    tainted: Vec<bool>,
    /// dQ before the scale, a row for each query.
    pub(super) d_q: &'s mut [R],
    /// For each relative position, a row of dO · value, of the weights and of dS.
    products: &'s mut [R],
    weights: &'s mut [R],
    d_scores: &'s mut [R],
}

/// A block of keys with a group.
struct Block<'s, R> {
    /// K and V row by row, and K in panels of a tile's columns.
    k: &'s mut [R],
    v: &'s mut [R],
    k_rows: &'s mut [R],
    /// A row for each key: scores, then weights; dP, then dS; the scores after the cap.
    scores: &'s mut [R],
    d_scores: &'s mut [R],
    capped: &'s mut [R],
}

impl<'a, E: Float> Head<'a, E> {
    pub(super) fn new(
        forward: &'a Forward<'a, E>,
        given: Given<'a, E>,
        sizes: Sizes,
        piece: usize,
        to: Outputs<E>,
        (small, sums): (&'a Small, &'a mut [E::Wide]),
    ) -> Self {
        let place = place(sizes, piece);
        let (b, h) = place.index();
        let group = h / (sizes.heads / sizes.groups);
        let [q, k, v] = forward.views;
        let [d_out, out] = match given {
            Given::Out(d_out, out) => [d_out, out].map(|view| rows_of(view, b, h)),
            _ => [Matrix { data: &[], at: 0, row: 0, column: 0 }; 2],
        };
        Head {
            forward,
            q: rows_of(q, b, h),
            k: rows_of(k, b, group),
            v: rows_of(v, b, group),
            out,
            d_out,
            given,
            log_sums: forward
                .sums
                .map(|parts| parts.map(|part| &part[piece * sizes.queries..][..sizes.queries])),
            sizes,
            place,
            to,
            small,
            sums,
        }
    }
}

impl<E: Float> Kernel<E::Wide> for Head<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(mut self) {
        let Sizes { queries, keys, d, dv, entries, .. } = self.sizes;
        let step = columns::<V>();
        let mask = self.forward.mask;
        let most = if mask.blocks.is_empty() { GROUP } else { group_of(mask) };
        let width = queries.min(most).next_multiple_of(step);
        let [dp, dvp] = [d, dv].map(|n| n.next_multiple_of(step));
        let block = KEYS.min(keys);
        let capped = if self.forward.settings.softcap.is_some() { block * width } else { 0 };
        let lens = [
            keys * dp,
            keys * dvp,
            width * d,
            width * dv,
            width * dp,
            width * dvp,
            width,
            width,
            width,
            width * dp,
            entries * width,
            entries * width,
            entries * width,
            block * d,
            block * dv,
            block * dp,
            block * width,
            block * width,
            capped,
        ];
        let mut spare = Spare::take(lens.map(padded::<E::Wide>).iter().sum());
        let mut rest = &mut spare[..];
        let [
            d_k,
            d_v,
            q,
            d_out,
            q_rows,
            d_out_rows,
            maxima,
            log_sums,
            delta,
            d_q,
            products,
            weights,
            d_scores,
            k,
            v,
            k_rows,
            scores,
            d_block,
            capped,
        ] = lens.map(|len| split(&mut rest, len));
        d_k.fill(E::Wide::zero());
        d_v.fill(E::Wide::zero());
        let tainted = Vec::new();
        let mut group = Group {
            queries: 0..0,
            width,
            q,
            d_out,
            q_rows,
            d_out_rows,
            maxima,
            log_sums,
            delta,
            tainted,
            d_q,
            products,
            weights,
            d_scores,
        };
        let mut block = Block { k, v, k_rows, scores, d_scores: d_block, capped };
        for first in (0..queries).step_by(most) {
            group.queries = first..queries.min(first + most);
            group.width = group.queries.len().next_multiple_of(step);
            // SAFETY: the caller vouches for the instruction set, `Head`'s maker for the matrices and the
            // outputs; the scratch is as long as `Group` and `Block` say.
            unsafe { self.group::<V>(&mut group, &mut block, (d_k, d_v)) }
        }
        let scales = [self.forward.settings.scale, 1.0].map(E::Wide::from_f64);
        let rows = [(&*d_k, (keys, d, dp)), (&*d_v, (keys, dv, dvp))];
        for (i, (from, rows)) in rows.into_iter().enumerate() {
            let row = self.to.rows[i + 1];
            // SAFETY: the outputs have room for a row of each key.
            unsafe {
                match self.to.pair {
                    Pair::Own(to) => write((to[i], row), from, rows, scales[i]),
                    Pair::Shared(to) => write((to[i], row), from, rows, scales[i]),
                }
            }
        }
    }
}

impl<E: Float> Head<'_, E> {
    /// All that a group of queries adds, and its own gradients.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; all is as [`Head`], [`Group`] and [`Block`] say.
    #[inline(always)]
    unsafe fn group<V: Vector<Scalar = E::Wide>>(
        &mut self,
        group: &mut Group<E::Wide>,
        block: &mut Block<E::Wide>,
        (d_k, d_v): (&mut [E::Wide], &mut [E::Wide]),
    ) {
        let Sizes { keys, d, dv, .. } = self.sizes;
        let [dp, dvp] = [d, dv].map(|n| n.next_multiple_of(columns::<V>()));
        let (zero, width) = (E::Wide::zero(), group.width);
        // SAFETY: the caller's.
        unsafe { self.prepare::<V>(group) }
        group.d_q.fill(zero);
        group.weights.fill(zero);
        group.d_scores.fill(zero);
        self.clear_scores(group);
        let mask = self.forward.mask;
        let mut seen = HeadMask::new(mask, self.place.index(), group.queries.clone(), width, keys);
        let mut next = seen.next(0);
        while !next.is_empty() {
            let range = next.start..next.end.min(next.start + KEYS);
            next = seen.next(range.end);
            let visible = seen.look(range.clone());
            if visible == Visible::Nothing {
                continue;
            }
            let count = range.len() * width;
            // SAFETY: the caller's; the rows of these keys lie within the sums.
            unsafe {
                self.load_keys::<V>(range.clone(), block);
                multiply_keys::<V>((&*block.k, d), range.len(), (&*group.q, width), block.scores);
                let scores = &mut block.scores[..count];
                self.settle::<V>(&seen, visible, range.start, scores, block.capped);
                multiply_keys::<V>(
                    (&*block.v, dv),
                    range.len(),
                    (&*group.d_out, width),
                    block.d_scores,
                );
                match self.given {
                    Given::Scores(d) => self.take_scores(group, d, range.clone(), block),
                    _ => self.differentiate::<V>(group, range.clone(), block),
                }
                let d_v = &mut d_v[range.start * dvp..];
                add_by_key::<V>(&block.scores[..count], width, group, (group.d_out_rows, dvp), d_v);
                self.finish_scores(group, range.clone(), block);
                let d_k = &mut d_k[range.start * dp..];
                add_by_key::<V>(&block.d_scores[..count], width, group, (&*group.q_rows, dp), d_k);
                add_by_query::<V>(
                    &block.d_scores[..count],
                    range.len(),
                    group,
                    (&*block.k_rows, dp),
                );
            }
        }
        self.finish(group, dp);
    }

    /// Packs a group's queries and its part of dO, and makes δ.
    ///
    /// # Safety
    ///
    /// As [`group`](Self::group).
    #[inline(always)]
    unsafe fn prepare<V: Vector<Scalar = E::Wide>>(&self, group: &mut Group<E::Wide>) {
        let Sizes { d, dv, .. } = self.sizes;
        let (step, width, queries) = (columns::<V>(), group.width, group.queries.clone());
        let scale = E::Wide::from_f64(self.forward.settings.scale * LOG2_E);
        for (matrix, n, to) in [(self.q, d, &mut *group.q), (self.d_out, dv, &mut *group.d_out)] {
            for (panel, to) in to.chunks_exact_mut((step * n).max(1)).enumerate() {
                let first = panel * step;
                let count = step.min(queries.len().saturating_sub(first));
                let from = matrix.from(queries.start + first.min(queries.len()), 0).transposed();
                // SAFETY: the caller's.
                unsafe { pack_panel_wide::<V, E>(from, (n, count), step, to) };
            }
        }
        group.q.iter_mut().for_each(|x| *x *= scale);
        let rows = [(self.q, d, &mut *group.q_rows), (self.d_out, dv, &mut *group.d_out_rows)];
        for (matrix, n, to) in rows {
            let from = matrix.from(queries.start, 0);
            pack_rows(from, (queries.len(), n), (step, width), to);
        }
        group.tainted.clear();
        let relative = self.forward.settings.relative_values();
        group.products.fill(E::Wide::zero());
        for (i, query) in queries.enumerate() {
            let part = |parts: [&[E::Wide]; 2]| parts.map(|part| part[query]);
            let [max, log] = self.log_sums.map_or([E::Wide::zero(); 2], part);
            // Where nothing is visible, −∞ − −∞ would be NaN.
            let nothing = max == E::Wide::neg_infinity();
            group.maxima[i] = if nothing { E::Wide::zero() } else { max };
            group.log_sums[i] = log;
            let (out, d_out) = (self.out.from(query, 0), self.d_out.from(query, 0));
            let at = |m: &Matrix<E>, c: usize| m.data[m.at + c * m.column].wide();
            let product = |sum: E::Wide, c| at(&out, c).mul_add(at(&d_out, c), sum);
            group.delta[i] = (0..dv).fold(self.other_delta(query), product);
            group.tainted.push(!(0..dv).all(|c| at(&d_out, c).is_finite()));
            if let Some(values) = relative {
                let [row, column] = [0, 1].map(|axis| values.layout.strides[axis]);
                for t in 0..self.sizes.entries {
                    let value =
                        |c: usize| values.data[values.layout.offset + t * row + c * column].wide();
                    let product = |sum: E::Wide, c| value(c).mul_add(at(&d_out, c), sum);
                    group.products[t * width + i] = (0..dv).fold(E::Wide::zero(), product);
                }
            }
        }
    }

    /// What δ is where the output is not what is given.
    fn other_delta(&self, query: usize) -> E::Wide {
        let (b, h) = self.place.index();
        let zero = E::Wide::zero();
        match self.given {
            Given::Out(..) | Given::Scores(_) => zero,
            Given::LogSums(d) => {
                let strides = d.layout.strides;
                let at = d.layout.offset + b * strides[0] + h * strides[1] + query * strides[2];
                -d.data[at].wide()
            }
            Given::Weights(d, weights) => {
                let row = |view| rows_of(view, b, h).from(query, 0);
                let (d, weights) = (row(d), row(weights));
                (0..self.sizes.keys).fold(zero, |sum, key| {
                    let weight = weights.data[weights.at + key * weights.column].wide();
                    // 0 · NaN would be NaN: what is hidden or was dropped has no gradient.
                    match weight.is_zero() {
                        true => sum,
                        false => d.data[d.at + key * d.column].wide().mul_add(weight, sum),
                    }
                })
            }
        }
    }

    /// Copies a block of keys and values.
    ///
    /// # Safety
    ///
    /// As [`group`](Self::group).
    #[inline(always)]
    unsafe fn load_keys<V: Vector<Scalar = E::Wide>>(
        &self,
        keys: Range<usize>,
        block: &mut Block<E::Wide>,
    ) {
        let Sizes { d, dv, .. } = self.sizes;
        let (k, v) = (self.k.from(keys.start, 0), self.v.from(keys.start, 0));
        pack_panel(k, (keys.len(), d), d, block.k, E::wide);
        pack_panel(v, (keys.len(), dv), dv, block.v, E::wide);
        pack_rows(k, (keys.len(), d), (columns::<V>(), keys.len()), block.k_rows);
    }
}
