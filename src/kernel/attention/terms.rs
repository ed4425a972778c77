//! What happens to scores between the product and the softmax: what depends on the query's and the
//! key's positions is added, the cap, biases. The order is that of the ONNX standard: what belongs to
//! the product, the cap, and then what a mask adds.

use super::mask::{Mask, Offset};
use crate::element::{Float, Real};
use crate::kernel::layout::View;
use crate::kernel::math::Special;
use crate::kernel::simd::Vector;
use num_traits::Float as _;
use std::ops::Range;

/// −slope · |distance|, with a slope for each head.
#[derive(Clone, Copy)]
pub(crate) struct Slopes<'a, E> {
    /// Over [H].
    pub(crate) each: View<'a, E>,
    pub(crate) offset: Offset<'a>,
}

/// A number for each head and distance from a query's position to a key, clipped to the table.
#[derive(Clone, Copy)]
pub(crate) struct Distances<'a, E> {
    /// Over [H, distances].
    pub(crate) table: View<'a, E>,
    /// The distance of the table's first entry.
    pub(crate) first: isize,
    pub(crate) offset: Offset<'a>,
}

/// Adds to a block of scores what the caller's function writes.
pub(crate) struct Fill<'a, E>(pub(crate) &'a (dyn Fn(&mut ScoreBlock<'_, E>) + Sync));

impl<E> Clone for Fill<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Fill<'_, E> {}

/// A block of scores, to be filled with what is added to them.
#[derive(Debug)]
pub struct ScoreBlock<'b, E> {
    /// The sample.
    pub batch: usize,
    /// The query head.
    pub head: usize,
    /// The queries, counted from the first.
    pub queries: Range<usize>,
    /// The keys, counted from the first.
    pub keys: Range<usize>,
    /// A row of keys for each query, all 0.
    pub scores: &'b mut [E],
}

impl<E> ScoreBlock<'_, E> {
    /// Writes what `score` gives for each query and key.
    pub fn fill(&mut self, score: impl Fn(usize, usize) -> E) {
        let pairs = self.queries.clone().flat_map(|i| self.keys.clone().map(move |j| (i, j)));
        self.scores.iter_mut().zip(pairs).for_each(|(to, (i, j))| *to = score(i, j));
    }
}

/// Relative positions with learned keys and values: entry t of the tables is for the distance t − `max`
/// from the query's position to the key, and distances beyond ±`max` take the entry at that end.
#[derive(Clone, Copy)]
pub(crate) struct Relative<'a, E> {
    /// Each query's products with the table of keys, over [B, H, Q, 2 · max + 1]; not scaled.
    pub(crate) products: Option<View<'a, E>>,
    /// Over [2 · max + 1, Dv].
    pub(crate) values: Option<View<'a, E>>,
    pub(crate) max: usize,
    pub(crate) offset: Offset<'a>,
}

impl<E> Relative<'_, E> {
    /// That the products are for a batch, heads and queries of these sizes.
    pub(super) fn check_products(&self, [batch, heads, queries]: [usize; 3]) {
        let products = [batch, heads, queries, 2 * self.max + 1];
        assert!(self.products.as_ref().is_none_or(|x| x.layout.dims[..] == products));
        assert!(self.offset.covers(batch));
    }

    /// Likewise the values, of a width.
    pub(super) fn check(&self, [batch, heads, queries, dv]: [usize; 4]) {
        self.check_products([batch, heads, queries]);
        let values = [2 * self.max + 1, dv];
        assert!(self.values.as_ref().is_none_or(|x| x.layout.dims[..] == values));
    }

    /// The entry of a table for a key, seen from a position.
    pub(super) fn entry(&self, position: isize, key: usize) -> usize {
        clipped(position, key, -self.max.cast_signed(), 2 * self.max + 1)
    }
}

impl<E> Distances<'_, E> {
    /// The entry of the table for a key, seen from a position.
    pub(super) fn entry(&self, position: isize, key: usize) -> usize {
        clipped(position, key, self.first, self.table.layout.dims[1])
    }
}

impl<E: Float> Relative<'_, E> {
    /// Adds up the numbers of a block by relative position: both have rows over the queries, `width` long,
    /// the block one for each key, the sums one for each entry.
    #[inline(never)]
    pub(super) fn add_by_entry(
        &self,
        batch: usize,
        (queries, keys): (Range<usize>, Range<usize>),
        width: usize,
        block: &[E::Wide],
        sums: &mut [E::Wide],
    ) {
        let count = queries.len();
        let position = self.offset.position(batch, queries.start);
        for (numbers, key) in block.chunks_exact(width).zip(keys) {
            // Queries up to the first number take the last entry, those from the second the first one.
            let beside = key.cast_signed().saturating_sub(position);
            let below = |n: isize| usize::try_from(n).unwrap_or(0).min(count);
            let last = below(beside.saturating_sub_unsigned(self.max).saturating_add(1));
            let none = below(beside.saturating_add_unsigned(self.max)).max(last);
            let mut add = |entry: usize, queries: Range<usize>| {
                let sums = &mut sums[entry * width..][queries.clone()];
                sums.iter_mut().zip(&numbers[queries]).for_each(|(sum, &number)| *sum += number);
            };
            add(2 * self.max, 0..last);
            for i in last..none {
                add(self.entry(position + i.cast_signed(), key), i..i + 1);
            }
            add(0, none..count);
        }
    }
}

/// The entry for the distance from a position to a key, of `count` entries from `first` on.
fn clipped(position: isize, key: usize, first: isize, count: usize) -> usize {
    let distance = key.cast_signed().saturating_sub(position).saturating_sub(first);
    usize::try_from(distance).unwrap_or(0).min(count.saturating_sub(1))
}

/// A window on the scores of one head, in the units of `unit`: 1 where a weight is eˣ, log₂ e where it
/// is 2ˣ.
pub(super) struct Scores<'s, R> {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
    pub(super) data: &'s mut [R],
    /// From one query's score to the next, and from one key's.
    pub(super) strides: [usize; 2],
    pub(super) unit: R,
}

impl<R: Real> Scores<'_, R> {
    /// Changes each score: `term` gets the numbers of the query and the key in this window, and the
    /// score.
    #[inline(always)]
    fn each(&mut self, mut term: impl FnMut(usize, usize, R) -> R) {
        let [query, key] = self.strides;
        for j in 0..self.keys.len() {
            for i in 0..self.queries.len() {
                let score = &mut self.data[i * query + j * key];
                *score = term(i, j, *score);
            }
        }
    }

    /// Adds the products of queries and relative keys, times `scale`.
    #[inline(always)]
    pub(super) fn add_relative<E: Float<Wide = R>>(&mut self, relative: &Relative<E>, scale: f64) {
        let Some(products) = &relative.products else { return };
        let factor = R::from_f64(scale) * self.unit;
        let (at, query, entry) = self.start(products);
        let (batch, queries, keys) = (self.batch, self.queries.start, self.keys.start);
        self.each(|i, j, score| {
            let position = relative.offset.position(batch, queries + i);
            let t = relative.entry(position, keys + j);
            score + products.data[at + i * query + t * entry].wide() * factor
        });
    }

    /// Adds everything that the mask adds.
    #[inline(always)]
    pub(super) fn add_terms<E: Float<Wide = R>>(&mut self, mask: &Mask<E>) {
        if self.keys.start < mask.extra {
            let first = mask.extra.min(self.keys.end) - self.keys.start;
            let start = (first * self.strides[1]).min(self.data.len());
            let mut rest = Scores {
                queries: self.queries.clone(),
                keys: self.keys.start + first..self.keys.end,
                data: &mut self.data[start..],
                ..*self
            };
            return rest.add_terms_behind(mask);
        }
        self.add_terms_behind(mask);
    }

    #[inline(always)]
    fn add_terms_behind<E: Float<Wide = R>>(&mut self, mask: &Mask<E>) {
        if self.keys.is_empty() {
            return;
        }
        self.keys = self.keys.start - mask.extra..self.keys.end - mask.extra;
        for bias in &mask.bias {
            self.add_bias(bias);
        }
        for slopes in &mask.slopes {
            self.add_slopes(slopes);
        }
        for distances in &mask.distances {
            self.add_distances(distances);
        }
        for fill in &mask.fills {
            self.add_fill(fill, mask.first);
        }
    }

    #[inline(always)]
    fn add_bias<E: Float<Wide = R>>(&mut self, bias: &View<E>) {
        let (at, query, key) = self.start(bias);
        let (at, unit) = (at + self.keys.start * key, self.unit);
        self.each(|i, j, score| sum(score, bias.data[at + j * key + i * query].wide(), unit));
    }

    #[inline(always)]
    fn add_slopes<E: Float<Wide = R>>(&mut self, slopes: &Slopes<E>) {
        let each = &slopes.each;
        let slope = each.data[each.layout.offset + self.head * each.layout.strides[0]].wide();
        let slope = -slope * self.unit;
        let position = slopes.offset.position(self.batch, self.queries.start);
        let from = self.keys.start.cast_signed().saturating_sub(position);
        self.each(|i, j, score| {
            // What wraps around, from a position at an end of the range, is as far away within rounding.
            let distance = from.wrapping_add_unsigned(j).wrapping_sub_unsigned(i);
            #[allow(clippy::cast_precision_loss, reason = "no sequence has 2⁵³ positions")]
            let distance = distance.unsigned_abs() as f64;
            slope.mul_add(R::from_f64(distance), score)
        });
    }

    #[inline(always)]
    fn add_distances<E: Float<Wide = R>>(&mut self, distances: &Distances<E>) {
        let Distances { table, offset, .. } = distances;
        let [row, entry] = [0, 1].map(|axis| table.layout.strides[axis]);
        let at = table.layout.offset + self.head * row;
        if table.layout.dims[1] == 0 {
            return;
        }
        let (batch, queries, keys) = (self.batch, self.queries.start, self.keys.start);
        let unit = self.unit;
        self.each(|i, j, score| {
            let position = offset.position(batch, queries + i);
            let t = distances.entry(position, keys + j);
            sum(score, table.data[at + t * entry].wide(), unit)
        });
    }

    #[inline(never)]
    fn add_fill<E: Float<Wide = R>>(&mut self, fill: &Fill<E>, first: usize) {
        let width = self.keys.len();
        let mut scores = vec![E::default(); self.queries.len() * width];
        fill.0(&mut ScoreBlock {
            batch: first + self.batch,
            head: self.head,
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            scores: &mut scores,
        });
        let unit = self.unit;
        self.each(|i, j, score| sum(score, scores[i * width + j].wide(), unit));
    }

    /// Where a view over [B, H, Q, …] has the first query, and its strides over queries and what follows.
    #[inline(always)]
    fn start<T>(&self, view: &View<T>) -> (usize, usize, usize) {
        let strides = view.layout.strides;
        let index = [self.batch, self.head, self.queries.start];
        let at: usize = index.iter().zip(strides.iter()).map(|(i, stride)| i * stride).sum();
        (view.layout.offset + at, strides[2], strides[3])
    }
}

/// A score and what is added to it, which is in units of eˣ.
#[inline(always)]
fn sum<R: Real>(score: R, bias: R, unit: R) -> R {
    let hidden = R::neg_infinity();
    // What is hidden stays so: −∞ and another bias of ∞ or NaN would be NaN.
    let hide = bias == hidden || score == hidden;
    let sum = bias * unit + score;
    // The least and the greatest number stay finite in the other base too.
    let overflows = sum.is_infinite() && bias.is_finite() && score.is_finite();
    let sum = if overflows { bias } else { sum };
    if hide { hidden } else { sum }
}

/// cap · tanh(score / cap), for whole vectors of scores; what is −∞, as hidden scores are, stays so.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn soften<V: Vector>(scores: &mut [V::Scalar], cap: V::Scalar)
where
    V::Scalar: Special,
{
    // SAFETY: the instruction set is the caller's, the chunks are whole vectors.
    unsafe {
        let (factor, cap) = (V::splat(cap.recip()), V::splat(cap));
        let least = V::splat(V::Scalar::min_value());
        for scores in scores.chunks_exact_mut(V::LANES) {
            let score = V::load(scores.as_ptr());
            let soft = <V::Scalar as Special>::tanh(score.mul(factor)).mul(cap);
            score.if_less(least, score, soft).store(scores.as_mut_ptr());
        }
    }
}
