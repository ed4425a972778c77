//! Scaled dot-product attention: softmax(q · kᵀ · scale + bias, over the visible keys) · v.
//!
//! The queries of each head of each batch entry are cut into pieces of work ([`block`]). The matrix of
//! scores never exists as a whole: a block holds the scores of its queries with one block of keys at a
//! time. A few queries take another way ([`few`]).

mod ahead;
mod backward;
mod block;
mod blocks;
mod few;
mod finish;
mod head_mask;
mod mask;
mod operand;
#[cfg(test)]
mod properties;
mod running;
mod stages;
mod terms;
#[cfg(test)]
mod tests;
mod tiled;
#[cfg(test)]
mod twin;
mod values;

pub(super) use backward::backward_on;
pub(crate) use backward::{Forward, Given, Gradients, attention_backward};
pub(crate) use blocks::Blocks;
pub(crate) use mask::{Band, Diagonal, Mask, Offset};
pub use stages::Stage;
pub(crate) use stages::scores;
pub use terms::ScoreBlock;
pub(crate) use terms::{Distances, Fill, Relative, Slopes};

use super::dropout::Dropout;
use super::gemm::Matrix;
use super::layout::{Layout, View, count};
use super::parallel::for_each;
use super::simd::{Isa, Lanes};
use super::tiles;
use crate::element::{Float, Real};
use ahead::Ahead;
use block::{Attend, GROUPS, KEYS, fitting, group};
use std::ops::Range;

/// Queries in a piece, as long as there are enough pieces: the more, the fewer times keys and values
/// are fetched and packed; the fewer, the more pieces for threads to share.
const QUERIES: [usize; 2] = [192, 96];
/// Pieces that are enough for many threads.
const PIECES: usize = 16;

/// How scores become weights, besides the mask.
#[derive(Clone)]
pub(crate) struct Settings<'a, E> {
    /// What products of queries and keys are multiplied by.
    pub(crate) scale: f64,
    /// Scores become cap · tanh(score / cap), before the mask.
    pub(crate) softcap: Option<f64>,
    /// On the weights.
    pub(crate) dropout: Option<Dropout>,
    pub(crate) relative: Option<Relative<'a, E>>,
}

/// A head, by its sizes and its number.
#[derive(Clone, Copy)]
struct Place {
    batch: usize,
    head: usize,
    heads: usize,
    queries: usize,
}

/// What attention writes: the output, [B, Q, H, Dv] in row-major order, and where wanted the weights,
/// [B, H, Q, K], and what is said of the sums of e to the scores.
pub(crate) struct Out<'o, E: Float> {
    pub(crate) out: &'o mut [E],
    pub(crate) weights: Option<&'o mut [E]>,
    pub(crate) sums: Sums<'o, E>,
}

/// What is said of the sum of e to a query's scores, over [B, H, Q].
pub(crate) enum Sums<'o, E: Float> {
    Nothing,
    /// Its logarithm.
    Log(&'o mut [E]),
    /// Its binary logarithm in two parts, which together are more exact than one number: the largest
    /// score, and what the sum relative to it adds.
    Parts([&'o mut [E::Wide]; 2]),
}

impl<'a, E> Settings<'a, E> {
    /// A scale and nothing else.
    pub(crate) fn scaled(scale: f64) -> Self {
        Settings { scale, softcap: None, dropout: None, relative: None }
    }

    /// The relative values, if there are any.
    fn relative_values(&self) -> Option<&View<'a, E>> {
        self.relative.as_ref().and_then(|relative| relative.values.as_ref())
    }
}

impl Dropout {
    /// Drops numbers of a block, a row of the queries' numbers for each key, `width` long. The first batch
    /// entry has this number.
    #[inline(never)]
    fn drop_block<R: Real>(
        self,
        (place, first): (Place, usize),
        (queries, keys): (Range<usize>, Range<usize>),
        width: usize,
        block: &mut [R],
    ) {
        let factor = R::from_f64(self.factor());
        for (i, query) in queries.enumerate() {
            let row = self.row(place.row(first, query));
            for (j, key) in keys.clone().enumerate() {
                let number = &mut block[j * width + i];
                *number = if row.keeps(key) { *number * factor } else { R::zero() };
            }
        }
    }
}

impl Place {
    fn index(self) -> (usize, usize) {
        (self.batch, self.head)
    }

    /// The number of a query among all, where the first batch entry has this number.
    fn row(self, first: usize, query: usize) -> usize {
        ((first + self.batch) * self.heads + self.head) * self.queries + query
    }
}

/// Queries in a piece of work, by sizes alone; whole blocks, where the mask has blocks.
fn piece<E>(heads: usize, queries: usize, mask: &Mask<E>) -> usize {
    let enough = |&cut: &usize| queries.div_ceil(cut).saturating_mul(heads) >= PIECES;
    let piece = QUERIES.into_iter().find(enough).unwrap_or(QUERIES[1]);
    let piece = piece.min(GROUPS * group(mask));
    let block = mask.blocks.first().map(|blocks| blocks.size[0]);
    block.and_then(|block| fitting(block, [QUERIES[1] / 2, piece])).unwrap_or(piece)
}

/// The attention of `q` [B, H, Q, D] to `k` [B, G, K, D] and `v` [B, G, K, Dv], in any strides. G
/// divides H, and query head h reads head h / (H/G). `out` is [B, Q, H, Dv] in row-major order.
pub(crate) fn attention<E: Float>(
    views: [View<E>; 3],
    settings: &Settings<E>,
    mask: &Mask<E>,
    out: &mut [E],
) {
    attention_to(views, settings, mask, Out { out, weights: None, sums: Sums::Nothing });
}

/// Q, K and V by head, over [B, H, positions, D], where they lie side by side in a tensor over [B, positions,
/// 3, H, D], in row-major order.
pub(crate) fn side_by_side([batch, positions, heads, d]: [usize; 4]) -> [Layout; 3] {
    let all = Layout::packed(&[batch, positions, 3, heads, d]);
    [0, 1, 2].map(|i| all.at(2, i).permuted(&[0, 2, 1, 3]))
}

/// As [`attention`], with all that is wanted.
pub(crate) fn attention_to<E: Float>(
    views: [View<E>; 3],
    settings: &Settings<E>,
    mask: &Mask<E>,
    out: Out<E>,
) {
    E::attention(Isa::best(), views, settings, mask, out);
}

/// Outputs that threads share, each writing other parts.
struct Outputs<E: Float> {
    out: *mut E,
    weights: Option<*mut E>,
    sums: SumsAt<E>,
}

/// Where sums go.
enum SumsAt<E: Float> {
    Nothing,
    Log(*mut E),
    Parts([*mut E::Wide; 2]),
}

impl<E: Float> Clone for SumsAt<E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E: Float> Copy for SumsAt<E> {}

// SAFETY: the parts that are written through it are disjoint, see `attention_on`; elements are
// `Send`.
unsafe impl<E: Float> Sync for Outputs<E> {}

impl<E: Float> Outputs<E> {
    /// The outputs from these elements on.
    ///
    /// # Safety
    ///
    /// The elements lie within the outputs, or one past their ends.
    unsafe fn at(&self, [out, weights, sums]: [usize; 3]) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Outputs {
                out: self.out.add(out),
                weights: self.weights.map(|start| start.add(weights)),
                sums: match self.sums {
                    SumsAt::Nothing => SumsAt::Nothing,
                    SumsAt::Log(start) => SumsAt::Log(start.add(sums)),
                    SumsAt::Parts(starts) => SumsAt::Parts(starts.map(|start| start.add(sums))),
                },
            }
        }
    }
}

/// A head's rows of a view over [B, H, …, …].
#[inline(always)]
fn rows_of<E>(view: View<'_, E>, batch: usize, head: usize) -> Matrix<'_, E> {
    let strides = view.layout.strides;
    let at = view.layout.offset + batch * strides[0] + head * strides[1];
    Matrix { data: view.data, at, row: strides[2], column: strides[3] }
}

/// That everything that attention reads has sizes that fit together.
fn check_operands<E: Float>([q, k, v]: [View<E>; 3], settings: &Settings<E>, mask: &Mask<E>) {
    let [batch, heads, queries, d] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
    let [groups, keys] = [1, 2].map(|axis| k.layout.dims[axis]);
    let dv = v.layout.dims[3];
    assert_eq!(k.layout.dims[..], [batch, groups, keys, d]);
    assert_eq!(v.layout.dims[..], [batch, groups, keys, dv]);
    assert!([q, k, v].iter().all(|view| view.layout.extent() <= view.data.len()));
    mask.check([batch, heads, queries, keys]);
    if let Some(relative) = &settings.relative {
        relative.check([batch, heads, queries, dv]);
    }
}

/// That everything that attention writes has room for it.
fn check_outputs<E: Float>([q, k, v]: [View<E>; 3], out: &Out<E>) {
    let (rows, keys) = (count(&q.layout.dims[..3]), k.layout.dims[2]);
    assert_eq!(out.out.len(), count(&[rows, v.layout.dims[3]]));
    assert!(out.weights.as_ref().is_none_or(|weights| weights.len() == count(&[rows, keys])));
    match &out.sums {
        Sums::Nothing => {}
        Sums::Log(sums) => assert_eq!(sums.len(), rows),
        Sums::Parts(parts) => assert!(parts.iter().all(|part| part.len() == rows)),
    }
}

pub(super) fn attention_on<E: Float>(
    isa: Isa,
    [q, k, v]: [View<E>; 3],
    settings: &Settings<E>,
    mask: &Mask<E>,
    out: Out<E>,
) {
    // All that the blocks rely on.
    check_operands([q, k, v], settings, mask);
    check_outputs([q, k, v], &out);
    let [batch, heads, queries, d] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
    let [groups, keys] = [1, 2].map(|axis| k.layout.dims[axis]);
    let dv = v.layout.dims[3];
    let rows = count(&[batch, heads, queries]);
    let Out { out, weights, sums } = out;
    let more = weights.is_some() || !matches!(sums, Sums::Nothing);
    if rows == 0 || out.is_empty() && !more {
        return;
    }
    assert!(groups > 0 && heads.is_multiple_of(groups));
    let Settings { dropout, relative, .. } = settings;
    if queries <= few::FEW && !more && dropout.is_none() && relative.is_none() {
        return few::attention_of_few(isa, [q, k, v], settings, mask, out);
    }

    let outputs = Outputs {
        out: out.as_mut_ptr(),
        weights: weights.map(|weights| weights.as_mut_ptr()),
        sums: match sums {
            Sums::Nothing => SumsAt::Nothing,
            Sums::Log(sums) => SumsAt::Log(sums.as_mut_ptr()),
            Sums::Parts(parts) => SumsAt::Parts(parts.map(|part| part.as_mut_ptr())),
        },
    };
    let cut = piece(batch * heads, queries, mask);
    let pieces = queries.div_ceil(cut);
    let work = rows.saturating_mul(keys).saturating_mul(d + dv + 8);
    // The operands of a piece, and its queries.
    let operands = |i: usize| {
        let (i, first) = (i / pieces, i % pieces * cut);
        let (b, h) = (i / heads, i % heads);
        let group = h / (heads / groups);
        let q = rows_of(q, b, h).from(first, 0);
        (q, rows_of(k, b, group), rows_of(v, b, group), first..queries.min(first + cut))
    };
    let all = batch * heads * pieces;
    let in_tiles =
        tiles::multiply::<E>(isa) && outputs.weights.is_none() && settings.relative.is_none();
    for_each(all, work, |i| {
        let (q, k, v, range): (_, _, _, Range<usize>) = operands(i);
        let ahead = operands((i + 1).min(all - 1));
        let i = i / pieces;
        let (b, h) = (i / heads, i % heads);
        // SAFETY: the rows `range` of this batch entry and head exist in all outputs, whose
        // lengths were checked, and no other block has them.
        let outputs = unsafe {
            let row = i * queries + range.start;
            outputs.at([((b * queries + range.start) * heads + h) * dv, row * keys, row])
        };
        let work = |tiled| Attend {
            q,
            k,
            v,
            queries: range.clone(),
            keys,
            d,
            dv,
            settings,
            mask,
            place: Place { batch: b, head: h, heads, queries },
            out: outputs.out,
            out_row: heads * dv,
            weights: outputs.weights,
            sums_to: outputs.sums,
            ahead: Ahead {
                rows: keys.min(KEYS),
                k: ahead.1,
                v: ahead.2,
                queries: ahead.3.len(),
                q: ahead.0,
            },
            tiled,
        };
        if !in_tiles || !E::Wide::vectorized(isa, work(Some(isa))) {
            E::Wide::vectorized(isa, work(None));
        }
    });
}
