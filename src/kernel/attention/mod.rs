//! Scaled dot-product attention: softmax(q · kᵀ · scale + bias, over the visible keys) · v.
//!
//! The queries of each head of each batch entry are cut into pieces of work ([`block`]). The matrix of
//! scores never exists as a whole: a block holds the scores of its queries with one block of keys at a
//! time. A few queries take another way ([`few`]).

mod block;
mod few;
mod mask;
mod operand;
#[cfg(test)]
mod properties;
mod running;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use mask::{Band, Mask};

use super::gemm::Matrix;
use super::layout::{View, count};
use super::parallel::for_each;
use super::simd::{Isa, Lanes};
use crate::element::Float;
use block::{Ahead, Attend, KEYS};

/// Queries in a piece, as long as there are enough pieces: the more, the fewer times keys and values
/// are fetched and packed; the fewer, the more pieces for threads to share.
const QUERIES: [usize; 2] = [192, 96];
/// Pieces that are enough for many threads.
const PIECES: usize = 16;

/// Queries in a piece of work, by sizes alone.
fn piece(heads: usize, queries: usize) -> usize {
    let enough = |&cut: &usize| queries.div_ceil(cut).saturating_mul(heads) >= PIECES;
    QUERIES.into_iter().find(enough).unwrap_or(QUERIES[1])
}

/// The attention of `q` [B, H, Q, D] to `k` [B, G, K, D] and `v` [B, G, K, Dv], in any strides. G
/// divides H, and query head h reads head h / (H/G). `out` is [B, Q, H, Dv] in row-major order.
pub(crate) fn attention<E: Float>(
    q: View<E>,
    k: View<E>,
    v: View<E>,
    scale: f64,
    mask: &Mask<E>,
    out: &mut [E],
) {
    attention_on(Isa::best(), [q, k, v], scale, mask, (out, None));
}

/// As [`attention`]; also writes the weights, [B, H, Q, K] in row-major order.
pub(crate) fn attention_with_weights<E: Float>(
    q: View<E>,
    k: View<E>,
    v: View<E>,
    scale: f64,
    mask: &Mask<E>,
    (out, weights): (&mut [E], &mut [E]),
) {
    attention_on(Isa::best(), [q, k, v], scale, mask, (out, Some(weights)));
}

/// Outputs that threads share, each writing other parts.
struct Outputs<E> {
    out: *mut E,
    weights: Option<*mut E>,
}

// SAFETY: the parts that are written through it are disjoint, see `attention_on`; elements are
// `Send`.
unsafe impl<E: Send> Sync for Outputs<E> {}

impl<E> Outputs<E> {
    /// The outputs from these elements on.
    ///
    /// # Safety
    ///
    /// The elements lie within the outputs, or one past their ends.
    unsafe fn at(&self, out: usize, weights: usize) -> (*mut E, Option<*mut E>) {
        // SAFETY: the caller's.
        unsafe { (self.out.add(out), self.weights.map(|start| start.add(weights))) }
    }
}

fn attention_on<E: Float>(
    isa: Isa,
    [q, k, v]: [View<E>; 3],
    scale: f64,
    mask: &Mask<E>,
    (out, weights): (&mut [E], Option<&mut [E]>),
) {
    let [batch, heads, queries, d] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
    let [groups, keys] = [1, 2].map(|axis| k.layout.dims[axis]);
    let dv = v.layout.dims[3];
    // All that the blocks rely on.
    assert_eq!(k.layout.dims[..], [batch, groups, keys, d]);
    assert_eq!(v.layout.dims[..], [batch, groups, keys, dv]);
    assert!([q, k, v].iter().all(|view| view.layout.extent() <= view.data.len()));
    let rows = count(&[batch, heads, queries]);
    assert_eq!(out.len(), count(&[rows, dv]));
    assert!(weights.as_ref().is_none_or(|weights| weights.len() == count(&[rows, keys])));
    let full = [batch, heads, queries, keys];
    assert!(mask.keep.iter().all(|keep| keep.layout.dims[..] == full));
    assert!(mask.bias.iter().all(|bias| bias.layout.dims[..] == full));
    if out.is_empty() && weights.as_ref().is_none_or(|weights| weights.is_empty()) {
        return;
    }
    assert!(groups > 0 && heads.is_multiple_of(groups));
    if queries <= few::FEW && weights.is_none() {
        return few::attention_of_few(isa, [q, k, v], scale, mask, out);
    }

    let matrix = |view: View<'_, E>, batch: usize, head: usize| {
        let strides = view.layout.strides;
        let at = view.layout.offset + batch * strides[0] + head * strides[1];
        (at, strides[2], strides[3])
    };
    let outputs =
        Outputs { out: out.as_mut_ptr(), weights: weights.map(|weights| weights.as_mut_ptr()) };
    let cut = piece(batch * heads, queries);
    let pieces = queries.div_ceil(cut);
    let work = rows.saturating_mul(keys).saturating_mul(d + dv + 8);
    let part = |(at, row, column), data| Matrix { data, at, row, column };
    // The operands of a piece, and its queries.
    let operands = |i: usize| {
        let (i, first) = (i / pieces, i % pieces * cut);
        let (b, h) = (i / heads, i % heads);
        let group = h / (heads / groups);
        let q = part(matrix(q, b, h), q.data).from(first, 0);
        let (k, v) = (part(matrix(k, b, group), k.data), part(matrix(v, b, group), v.data));
        (q, k, v, first..queries.min(first + cut))
    };
    let all = batch * heads * pieces;
    for_each(all, work, |i| {
        let (q, k, v, range) = operands(i);
        let ahead = operands((i + 1).min(all - 1));
        let i = i / pieces;
        let (b, h) = (i / heads, i % heads);
        // SAFETY: the rows `range` of this batch entry and head exist in both outputs, whose
        // lengths were checked, and no other block has them.
        let (out, weights) = unsafe {
            let first = range.start;
            outputs.at(((b * queries + first) * heads + h) * dv, (i * queries + first) * keys)
        };
        let work = Attend {
            q,
            k,
            v,
            queries: range,
            keys,
            d,
            dv,
            scale,
            mask,
            place: (b, h),
            out,
            out_row: heads * dv,
            weights,
            next: Ahead {
                rows: keys.min(KEYS),
                k: ahead.1,
                v: ahead.2,
                queries: ahead.3.len(),
                q: ahead.0,
            },
        };
        E::Wide::vectorized(isa, work);
    });
}
