//! Attention whose weights are products of features: out = φ(q) · Σ φ(k)ᵀ v / φ(q) · Σ φ(k), over the
//! keys that a query sees.
//!
//! A query sees a number of the first keys, and no query fewer than the one before it. Queries are
//! taken in chunks: what the first of a chunk sees is in the running sum Σ φ(k)ᵀ (v, 1), one matrix for
//! each key/value head; the keys beyond, as many as a chunk has, are weighed by a product of the chunk's
//! queries with them. Everything is a product of matrices. The 1 behind each value makes the sum of
//! weights the last column of the result. Halves are made wide first, and rounded last.
//!
//! What is hidden has features and values of 0. A key that a later query sees may stand in the product of
//! its chunk with values that are not finite: then the chunk is summed key by key instead.
//!
//! The gradients are sums of the same kind ([`backward`]).

mod backward;
mod features;

pub(crate) use backward::linear_attention_backward;
pub use features::FeatureMap;

use super::attention::Mask;
use super::elementwise::{packed, zip_in_place};
use super::gemm::gemm;
use super::layout::{Layout, View, count};
use super::parallel::for_each_chunk;
use super::wide::wide;
use crate::element::{Float, Real};
use features::features;
use num_traits::Zero;
use std::ops::Range;

/// Queries in a chunk, where they see different keys.
const CHUNK: usize = 64;

/// The linear attention of `q` [B, H, Q, D] to `k` [B, G, K, D] and `v` [B, G, K, Dv], in any strides. G
/// divides H. The mask tells keys apart by sample and by the bands alone. `out` is [B, Q, H, Dv] in
/// row-major order.
pub(crate) fn linear_attention<E: Float>(
    [q, k, v]: [View<E>; 3],
    by: FeatureMap,
    mask: &Mask<E>,
    out: &mut [E],
) {
    if out.is_empty() {
        return;
    }
    let sizes = Sizes::of([q, k, v], by);
    let Sizes { batch, heads, queries, width, .. } = sizes;
    let value = width - 1;
    let visible = Visible::of(mask, sizes);
    let [q, k, v] = [wide(q), wide(k), wide(v)];
    let operands = Operands::of([q.view(), k.view(), v.view()], by, sizes, &visible);
    let sums = operands.pairs().sums(&visible.limits);
    let line = heads * value;
    for_each_chunk(out, line, batch * queries * line, |i, out| {
        let (sample, query) = (i / queries, i % queries);
        let sees = visible.sees(sample, query);
        for (head, out) in out.chunks_exact_mut(value).enumerate() {
            let at = ((sample * heads + head) * queries + query) * width;
            let (values, weight) = (&sums[at..at + value], sums[at + value]);
            for (out, &value) in out.iter_mut().zip(values) {
                let nothing = !sees || weight == E::Wide::zero();
                *out = if nothing { E::default() } else { E::narrow(value / weight) };
            }
        }
    });
}

#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    groups: usize,
    queries: usize,
    keys: usize,
    /// Features.
    dim: usize,
    /// Of a value and the 1 behind it.
    width: usize,
}

impl Sizes {
    fn of<E: Float>([q, k, v]: [View<E>; 3], by: FeatureMap) -> Self {
        let [batch, heads, queries, dim] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
        let [groups, keys, value] = [(k, 1), (k, 2), (v, 3)].map(|(of, axis)| of.layout.dims[axis]);
        Sizes { batch, heads, groups, queries, keys, dim: by.width(dim), width: value + 1 }
    }
}

/// What the queries see.
struct Visible {
    /// Query i sees keys below this.
    limits: Vec<usize>,
    /// By sample: how many of the first n keys are not hidden, for n from 0 to K.
    counts: Vec<Vec<usize>>,
}

impl Visible {
    fn of<E: Float>(mask: &Mask<E>, sizes: Sizes) -> Self {
        // No mask that gets here has a first key of its own, or tells samples apart by a band.
        let limit = |query: usize| mask.run((0, query), sizes.keys)[1];
        // No mask that gets here tells heads or queries apart.
        let keeps: Vec<_> =
            mask.keep.iter().map(|keep| (keep.data, keep.layout.at(1, 0).at(1, 0))).collect();
        let kept = |sample: usize, key: usize| {
            keeps.iter().all(|(data, layout)| {
                data[layout.offset + sample * layout.strides[0] + key * layout.strides[1]]
            })
        };
        let counts = |sample| {
            let mut counts = vec![0];
            counts.extend((0..sizes.keys).scan(0, |count, key| {
                *count += usize::from(kept(sample, key));
                Some(*count)
            }));
            counts
        };
        Visible {
            limits: (0..sizes.queries).map(limit).collect(),
            counts: (0..sizes.batch).map(counts).collect(),
        }
    }

    /// Whether a query sees any key.
    fn sees(&self, sample: usize, query: usize) -> bool {
        self.counts[sample][self.limits[query]] > 0
    }

    /// Whether a key is hidden from all queries.
    fn hides(&self, sample: usize, key: usize) -> bool {
        self.counts[sample][key] == self.counts[sample][key + 1]
    }
}

/// Features and values, in row-major order.
struct Operands<R> {
    sizes: Sizes,
    /// [B, H, Q, features].
    q: Vec<R>,
    /// [B, G, K, features].
    k: Vec<R>,
    /// [B, G, K, width].
    v: Vec<R>,
}

/// The values, each with a 1 behind it.
fn with_ones<R: Real>(v: View<R>) -> Vec<R> {
    let dims = v.layout.dims;
    let (value, width) = (dims[3], dims[3] + 1);
    let v = packed(v);
    let mut out = vec![R::one(); count(&[dims[0], dims[1], dims[2], width])];
    let work = out.len();
    for_each_chunk(&mut out, CHUNK * width, work, |i, chunk| {
        for (row, out) in chunk.chunks_exact_mut(width).enumerate() {
            let row = i * CHUNK + row;
            out[..value].copy_from_slice(&v[row * value..(row + 1) * value]);
        }
    });
    out
}

impl<R: Real> Operands<R> {
    /// Features and values of hidden keys are 0.
    fn of([q, k, v]: [View<R>; 3], by: FeatureMap, sizes: Sizes, visible: &Visible) -> Self {
        let (q, mut k, mut v) = (features(q, by), features(k, by), with_ones(v));
        let Sizes { batch, groups, keys, dim, width, .. } = sizes;
        for (sample, key) in (0..batch).flat_map(|sample| (0..keys).map(move |key| (sample, key))) {
            for group in (0..groups).filter(|_| visible.hides(sample, key)) {
                let row = (sample * groups + group) * keys + key;
                k[row * dim..(row + 1) * dim].fill(R::zero());
                v[row * width..(row + 1) * width].fill(R::zero());
            }
        }
        Operands { sizes, q, k, v }
    }

    fn pairs(&self) -> Pairs<'_, R> {
        Pairs::new(self.sizes, [&self.q, &self.k, &self.v])
    }
}

/// Rows whose products weigh others: Σⱼ (qᵢ · kⱼ) vⱼ, over the first keys that query i sees.
struct Pairs<'a, R> {
    sizes: Sizes,
    /// [B, H, Q, features].
    q: &'a [R],
    /// [B, G, K, features].
    k: &'a [R],
    /// [B, G, K, width].
    v: &'a [R],
    /// Whether all values are.
    finite: bool,
}

impl<'a, R: Real> Pairs<'a, R> {
    fn new(sizes: Sizes, [q, k, v]: [&'a [R]; 3]) -> Self {
        Pairs { sizes, q, k, v, finite: v.iter().all(|v| v.is_finite()) }
    }

    /// The sum for each query: [B, H, Q, width].
    fn sums(&self, limits: &[usize]) -> Vec<R> {
        let Sizes { batch, heads, groups, queries, dim, width, .. } = self.sizes;
        let mut sums = vec![R::zero(); count(&[batch, heads, queries, width])];
        let mut state = vec![R::zero(); count(&[batch, groups, dim, width])];
        let mut summed = 0;
        let same = limits.first() == limits.last();
        let chunk = if same { queries } else { CHUNK };
        for start in (0..queries).step_by(chunk) {
            let chunk = start..queries.min(start + chunk);
            let (first, last) = (limits[chunk.start], limits[chunk.end - 1]);
            if first > summed {
                self.add_to_state(&mut state, summed..first);
                summed = first;
            }
            let mut part = self.queries_by(chunk.clone(), &state);
            for start in (first..last).step_by(CHUNK) {
                self.add_beyond(&mut part, chunk.clone(), start..last.min(start + CHUNK), limits);
            }
            let rows = chunk.len() * width;
            for (head, part) in part.chunks_exact(rows).enumerate() {
                sums[(head * queries + chunk.start) * width..][..rows].copy_from_slice(part);
            }
        }
        sums
    }

    /// state += Σ kᵀ v over these keys.
    fn add_to_state(&self, state: &mut [R], keys: Range<usize>) {
        let k = self.keys(self.k, self.sizes.dim, keys.clone());
        let v = self.keys(self.v, self.sizes.width, keys);
        let product = gemm(View { layout: k.layout.transposed(), ..k }, v, None);
        add(state, &product);
    }

    /// q · state for a chunk of queries: [B, G, H/G, chunk, width].
    fn queries_by(&self, chunk: Range<usize>, state: &[R]) -> Vec<R> {
        let Sizes { batch, groups, dim, width, .. } = self.sizes;
        let layout = Layout::packed(&[batch, groups, dim, width]);
        gemm(self.queries(chunk), self.by_query_head(View { data: state, layout }), None)
    }

    /// part += Σ weight · v over those of these keys that each query of the chunk sees.
    fn add_beyond(
        &self,
        part: &mut [R],
        chunk: Range<usize>,
        keys: Range<usize>,
        limits: &[usize],
    ) {
        let Sizes { dim, width, .. } = self.sizes;
        let k = self.keys(self.k, dim, keys.clone());
        let k = self.by_query_head(View { layout: k.layout.transposed(), ..k });
        let mut weights = gemm(self.queries(chunk.clone()), k, None);
        let (rows, columns) = (chunk.len(), keys.len());
        let work = weights.len();
        for_each_chunk(&mut weights, rows * columns, work, |_, weights| {
            for (row, query) in weights.chunks_exact_mut(columns).zip(chunk.clone()) {
                let seen = limits[query].saturating_sub(keys.start).min(columns);
                row[seen..].fill(R::zero());
            }
        });
        if self.finite {
            let v = self.by_query_head(self.keys(self.v, width, keys));
            let mut layout = Layout::packed(&[weights.len() / (rows * columns), rows, columns]);
            layout = layout.split(0, v.layout.dims[0], layout.dims[0] / v.layout.dims[0]);
            layout = layout.split(1, v.layout.dims[1], v.layout.dims[2]);
            add(part, &gemm(View { data: &weights, layout }, v, None));
            return;
        }
        let Sizes { heads, groups, keys: all, .. } = self.sizes;
        for (row, out) in part.chunks_exact_mut(width).enumerate() {
            let (head, query) = (row / rows, row % rows);
            let group = head / heads * groups + head % heads / (heads / groups);
            let seen = limits[chunk.start + query].min(keys.end);
            for key in keys.start..seen {
                let weight = weights[row * columns + key - keys.start];
                let v = &self.v[(group * all + key) * width..][..width];
                for (out, &v) in out.iter_mut().zip(v) {
                    *out = weight.mul_add(v, *out);
                }
            }
        }
    }

    /// A chunk of queries: [B, G, H/G, chunk, features].
    fn queries(&self, chunk: Range<usize>) -> View<'_, R> {
        let Sizes { batch, heads, groups, queries, dim, .. } = self.sizes;
        let layout = Layout::packed(&[batch, groups, heads / groups, queries, dim]);
        View { data: self.q, layout: layout.sliced(3, chunk.start, chunk.len()) }
    }

    /// Some of the keys, or values, of `width` elements each: [B, G, keys, width].
    fn keys(&self, data: &'a [R], width: usize, keys: Range<usize>) -> View<'a, R> {
        let layout = Layout::packed(&[self.sizes.batch, self.sizes.groups, self.sizes.keys, width]);
        View { data, layout: layout.sliced(2, keys.start, keys.len()) }
    }

    /// [B, G, …] as [B, G, H/G, …], repeated for each query head.
    fn by_query_head<'v>(&self, view: View<'v, R>) -> View<'v, R> {
        let share = self.sizes.heads / self.sizes.groups;
        View { layout: view.layout.repeated(2, share), ..view }
    }
}

/// a += b.
fn add<R: Real>(a: &mut [R], b: &[R]) {
    let b = View { data: b, layout: Layout::packed(&[b.len()]) };
    zip_in_place(a, b, |a, b| a + b);
}
