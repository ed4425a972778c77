//! The gradients of linear attention.
//!
//! With sᵢ = Σⱼ (φ(qᵢ) · φ(kⱼ)) (vⱼ, 1) and outᵢ = numbers of sᵢ / its last one, wᵢ, what is given for outᵢ,
//! gᵢ, makes that of sᵢ: gᵢ' = (gᵢ, −gᵢ · outᵢ) / wᵢ. Then, over the pairs of a query i and a key j that it
//! sees,
//!
//! dφ(qᵢ) = Σⱼ (gᵢ' · (vⱼ, 1)) φ(kⱼ), dφ(kⱼ) = Σᵢ ((vⱼ, 1) · gᵢ') φ(qᵢ), d(vⱼ, 1) = Σᵢ (φ(kⱼ) · φ(qᵢ)) gᵢ'.
//!
//! Each is a sum of the forward pass's kind ([`Pairs`]) with other rows in its three places. In the last two
//! keys stand where queries did: key j is seen by the last queries, and by no fewer than the one behind it,
//! so all rows are taken from the end. Query heads that share keys give a sum each, added up in order.
//!
//! What is not seen has the gradient 0, and so has what sees nothing, or weighs all of it 0.

use super::features::{FeatureMap, features_backward};
use super::{CHUNK, Operands, Pairs, Sizes, Visible};
use crate::element::{Float, Real};
use crate::kernel::attention::Mask;
use crate::kernel::elementwise::packed;
use crate::kernel::layout::{View, count};
use crate::kernel::parallel::{for_each_chunk, for_each_chunk_pair};
use crate::kernel::wide::{narrowed, wide};

/// The gradients of `q` [B, H, Q, D], `k` [B, G, K, D] and `v` [B, G, K, Dv], row-major, given that of the
/// output, `d_out` over [B, H, Q, Dv].
pub(crate) fn linear_attention_backward<E: Float>(
    views: [View<E>; 3],
    by: FeatureMap,
    mask: &Mask<E>,
    d_out: View<E>,
) -> [Vec<E>; 3] {
    let sizes = Sizes::of(views, by);
    let Sizes { batch, heads, queries, keys, dim, width, .. } = sizes;
    if [batch, heads, queries, keys, dim, width - 1].contains(&0) {
        return views.map(|view| vec![E::default(); view.layout.count()]);
    }
    let visible = Visible::of(mask, sizes);
    let [q, k, v] = views.map(wide);
    let views @ [q, k, _] = [q.view(), k.view(), v.view()];
    let mut operands = Operands::of(views, by, sizes, &visible);
    let d_sums = d_sums(&mut operands, &visible, wide(d_out).view());
    let of_values = Sizes { dim: width, width: dim, ..sizes };
    let d_q = Pairs::new(of_values, [&d_sums, &operands.v, &operands.k]).sums(&visible.limits);
    let d_q = features_backward(q, &d_q, by);
    let turned = Turned::of(&operands, &d_sums, &visible);
    drop((operands, d_sums));
    let d_k = turned.sums([&turned.v, &turned.d_sums, &turned.q], [width, dim], dim);
    let d_k = features_backward(k, &d_k, by);
    let d_v = turned.sums([&turned.k, &turned.q, &turned.d_sums], [dim, width], width - 1);
    [d_q, d_k, d_v].map(narrowed)
}

/// The gradient of each query's sum, [B, H, Q, width]. The features of a query that has none become 0.
fn d_sums<R: Real>(operands: &mut Operands<R>, visible: &Visible, d_out: View<R>) -> Vec<R> {
    let Sizes { heads, queries, dim, width, .. } = operands.sizes;
    let value = width - 1;
    let mut sums = operands.pairs().sums(&visible.limits);
    let d_out = packed(d_out);
    let work = sums.len() * 4;
    let parts = ((&mut sums[..], CHUNK * width), (&mut operands.q[..], CHUNK * dim));
    for_each_chunk_pair(parts.0, parts.1, work, |i, sums, features| {
        let rows = sums.chunks_exact_mut(width).zip(features.chunks_exact_mut(dim));
        for (row, (sum, features)) in rows.enumerate() {
            let row = i * CHUNK + row;
            let weight = sum[value];
            if !visible.sees(row / queries / heads, row % queries) || weight == R::zero() {
                sum.fill(R::zero());
                features.fill(R::zero());
                continue;
            }
            let mut product = R::zero();
            for (sum, d_out) in sum.iter_mut().zip(&d_out[row * value..(row + 1) * value]) {
                let d = *d_out / weight;
                product += d * (*sum / weight);
                *sum = d;
            }
            sum[value] = -product;
        }
    });
    sums
}

/// All rows from the end, those of keys once for each query head.
struct Turned<'v, R> {
    sizes: Sizes,
    visible: &'v Visible,
    /// Of key j from the end: how many queries from the end see it.
    limits: Vec<usize>,
    q: Vec<R>,
    d_sums: Vec<R>,
    k: Vec<R>,
    v: Vec<R>,
}

impl<'v, R: Real> Turned<'v, R> {
    fn of(operands: &Operands<R>, d_sums: &[R], visible: &'v Visible) -> Self {
        let sizes @ Sizes { heads, groups, queries, keys, dim, width, .. } = operands.sizes;
        let share = heads / groups;
        let seen_by = |key| queries - visible.limits.partition_point(|&limit| limit <= key);
        Turned {
            sizes,
            visible,
            limits: (0..keys).rev().map(seen_by).collect(),
            q: from_the_end(&operands.q, queries, dim, 1),
            d_sums: from_the_end(d_sums, queries, width, 1),
            k: from_the_end(&operands.k, keys, dim, share),
            v: from_the_end(&operands.v, keys, width, share),
        }
    }

    /// Σᵢ (rowⱼ · otherᵢ) valueᵢ for each key, of these widths, the first `of` elements: [B, G, K, of].
    fn sums(
        &self,
        [rows, others, values]: [&[R]; 3],
        [dim, width]: [usize; 2],
        of: usize,
    ) -> Vec<R> {
        let Sizes { batch, heads, groups, queries, keys, .. } = self.sizes;
        let sizes = Sizes { batch, heads, groups: heads, queries: keys, keys: queries, dim, width };
        let sums = Pairs::new(sizes, [rows, others, values]).sums(&self.limits);
        let share = heads / groups;
        let mut out = vec![R::zero(); count(&[batch, groups, keys, of])];
        let work = sums.len();
        for_each_chunk(&mut out, CHUNK * of, work, |i, chunk| {
            for (row, out) in chunk.chunks_exact_mut(of).enumerate() {
                let (group, key) = ((i * CHUNK + row) / keys, (i * CHUNK + row) % keys);
                let end = keys - 1 - key;
                if self.limits[end] == 0 || self.visible.hides(group / groups, key) {
                    continue;
                }
                for (c, out) in out.iter_mut().enumerate() {
                    let of_head = |s: usize| sums[((group * share + s) * keys + end) * width + c];
                    let add = |sum, s| sum + of_head(s);
                    *out = (0..share).fold(R::zero(), add);
                }
            }
        });
        out
    }
}

/// Blocks of `rows` rows from the end, each block `times` times.
fn from_the_end<R: Real>(data: &[R], rows: usize, width: usize, times: usize) -> Vec<R> {
    let mut out = vec![R::zero(); data.len() * times];
    let work = out.len();
    for_each_chunk(&mut out, CHUNK * width, work, |i, chunk| {
        for (row, out) in chunk.chunks_exact_mut(width).enumerate() {
            let (block, row) = ((i * CHUNK + row) / rows, (i * CHUNK + row) % rows);
            let from = (block / times + 1) * rows - 1 - row;
            out.copy_from_slice(&data[from * width..(from + 1) * width]);
        }
    });
    out
}
