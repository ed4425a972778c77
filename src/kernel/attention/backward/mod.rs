//! The gradients of attention.
//!
//! With weights P, scores S and what is given for the output, dO:
//!
//! dV = P̃ᵀ · dO, dP = dO · Vᵀ, dS = P ∘ (dP − δ), δᵢ = dOᵢ · Oᵢ, dQ = dS · K · scale, dK = dSᵀ · Q · scale,
//!
//! where P̃ are the weights after dropout, and dP is 0 where a weight was dropped. Of the logarithms of the
//! sums, dS = P ∘ dL; of returned weights, dP is what is given and δᵢ = Σ dPᵢ ∘ P̃ᵢ; of scores, dS is what is
//! given, and from there on all is the same ([`Given`]). The weights are made
//! again from Q, K and the logarithms of the sums that the forward pass kept, block by block: as there,
//! the scores never exist as a whole, and keys that no query sees are stepped over.
//!
//! A head of a batch entry is one piece of work ([`head`]): it goes through its queries in order, and for
//! each group of them through the keys in order, so the sums over queries are the same for every number of
//! threads. Query heads that share a key/value head give a gradient each, which are added up in order
//! and rounded then.
//! What belongs to a table or to a head is summed by piece, and then over the pieces in order.

mod head;
mod products;
mod small;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use super::mask::Mask;
use super::{Place, Settings, check_operands, side_by_side};
use crate::element::Float;
use crate::kernel::layout::{Layout, View, count};
use crate::kernel::parallel::{for_each_chunk, for_each_chunk_pair};
use crate::kernel::simd::{Isa, Lanes};
use head::Head;
use num_traits::Zero;
use small::Small;
use std::mem::MaybeUninit;
use std::ops::Range;

/// What the forward pass took, and the sums that it gave.
pub(crate) struct Forward<'f, E: Float> {
    /// Q, K and V.
    pub(crate) views: [View<'f, E>; 3],
    pub(crate) settings: &'f Settings<'f, E>,
    pub(crate) mask: &'f Mask<'f, E>,
    /// The logarithms of the sums in two parts, over [B, H, Q] in row-major order; scores have none.
    pub(crate) sums: Option<[&'f [E::Wide]; 2]>,
    /// Whether Q, K and V are parts of one tensor over [B, Q, 3, H, D], as their gradients are to be.
    pub(crate) together: bool,
}

/// The gradient of one of the things that the forward pass gives. V has one from the output alone.
#[derive(Clone, Copy)]
pub(crate) enum Given<'g, E> {
    /// Of the output, and the output, over [B, H, Q, Dv].
    Out(View<'g, E>, View<'g, E>),
    /// Of the logarithms of the sums, over [B, H, Q].
    LogSums(View<'g, E>),
    /// Of the weights after dropout, and these, over [B, H, Q, K].
    Weights(View<'g, E>, View<'g, E>),
    /// Of the scores after everything that is added, over [B, H, Q, K]. What is hidden has no gradient.
    Scores(View<'g, E>),
}

/// The gradients, in row-major order.
pub(crate) struct Gradients<E> {
    /// Over [B, H, Q, D], [B, G, K, D] and [B, G, K, Dv]; where they belong together, all three are the first.
    pub(crate) q: Vec<E>,
    pub(crate) k: Vec<E>,
    pub(crate) v: Vec<E>,
    /// Of the scores after everything that is added, over [B, H, Q, K], if asked for: those of biases are
    /// its sums.
    pub(crate) scores: Vec<E>,
    /// Of each of the mask's tables by distance, over [H, distances]; of its slopes and its sinks, over [H].
    pub(crate) distances: Vec<Vec<E>>,
    pub(crate) slopes: Vec<Vec<E>>,
    pub(crate) sinks: Vec<Vec<E>>,
    /// Of the relative positions' products, over [B, H, Q, T], and values, over [T, Dv].
    pub(crate) products: Vec<E>,
    pub(crate) values: Vec<E>,
}

/// The sizes of an attention.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    groups: usize,
    queries: usize,
    keys: usize,
    d: usize,
    dv: usize,
    /// Entries of the relative tables.
    entries: usize,
}

/// Where a piece writes, each at the place of its own part.
struct Outputs<E: Float> {
    q: *mut E,
    /// K's and V's.
    pair: Pair<E>,
    /// From one row of Q's, K's and V's to the next.
    rows: [usize; 3],
    scores: Option<*mut E>,
    products: Option<*mut E>,
}

/// Where the gradients of keys and values go. Those of heads that share them are rounded when they have
/// been added up.
enum Pair<E: Float> {
    Own([*mut E; 2]),
    Shared([*mut E::Wide; 2]),
}

// SAFETY: the parts that are written through it are disjoint, see `backward_on`; elements are `Send`.
unsafe impl<E: Float> Sync for Outputs<E> {}

/// The gradients of what an attention takes, from that of something it gives.
pub(crate) fn attention_backward<E: Float>(
    forward: &Forward<E>,
    given: Given<E>,
    of_scores: bool,
) -> Gradients<E> {
    E::attention_backward(Isa::best(), forward, given, of_scores)
}

/// Values have no width where their gradient is not asked for: they are not read then.
fn sizes<E: Float>(forward: &Forward<E>, given: &Given<E>) -> Sizes {
    let [q, k, v] = forward.views.map(|view| view.layout.dims);
    let relative = forward.settings.relative.as_ref();
    Sizes {
        batch: q[0],
        heads: q[1],
        groups: k[1],
        queries: q[2],
        keys: k[2],
        d: q[3],
        dv: if matches!(given, Given::Out(..)) { v[3] } else { 0 },
        entries: relative.map_or(0, |relative| 2 * relative.max + 1),
    }
}

/// That everything has the sizes that the pieces rely on.
fn check<E: Float>(forward: &Forward<E>, given: &Given<E>) {
    check_operands(forward.views, forward.settings, forward.mask);
    let Sizes { batch, heads, groups, queries, keys, d, dv, .. } = sizes(forward, given);
    assert!(!forward.together || [heads, queries, d] == [groups, keys, dv]);
    assert!(heads == 0 || groups > 0 && heads.is_multiple_of(groups));
    let rows = [batch, heads, queries];
    let all = |views: &[View<E>], last: &[usize]| {
        let dims = [&rows, last].concat();
        let fits = |x: &View<E>| x.layout.dims[..] == dims && x.layout.extent() <= x.data.len();
        views.iter().all(fits)
    };
    assert!(match *given {
        Given::Out(d, out) => all(&[d, out], &[dv]),
        Given::LogSums(d) => all(&[d], &[]),
        Given::Weights(d, weights) => all(&[d, weights], &[keys]),
        Given::Scores(d) => all(&[d], &[keys]),
    });
    let sums = forward.sums.iter().flatten();
    assert!(sums.into_iter().all(|part| part.len() == count(&rows)));
    assert!(forward.sums.is_some() || matches!(given, Given::Scores(_)));
}

pub(in crate::kernel) fn backward_on<E: Float>(
    isa: Isa,
    forward: &Forward<E>,
    given: Given<E>,
    of_scores: bool,
) -> Gradients<E> {
    check(forward, &given);
    let sizes = sizes(forward, &given);
    let Sizes { batch, heads, queries, keys, d, dv, entries, .. } = sizes;
    let pieces = count(&[batch, heads]);
    let small = Small::of(forward, sizes);
    let mut smalls = vec![E::Wide::zero(); pieces * small.len];
    let work = count(&[pieces, queries]).saturating_mul(keys).saturating_mul(3 * d + 2 * dv + 16);
    let row = |each: bool, len| if each { count(&[pieces, queries, len]) } else { 0 };
    let share = heads != sizes.groups;
    let layouts = layouts(sizes, forward.together);
    let [q, k, v] = layouts.map(|layout| layout.count());
    let (q, own, parts) = match () {
        () if forward.together => (q + k + v, [0; 2], [0; 2]),
        () if share => (q, [0; 2], [k, v]),
        () => (q, [k, v], [0; 2]),
    };
    let scores = row(of_scores, keys);
    let products = row(forward.settings.relative.is_some(), entries);
    let lens = [q, scores, products, own[0], own[1]];
    let mut run = |[q, scores, products, k, v]: [&mut [MaybeUninit<E>]; 5],
                   parts: [&mut [MaybeUninit<E::Wide>]; 2]| {
        let q = q.as_mut_ptr().cast();
        let outputs = Outputs {
            q,
            pair: match () {
                () if forward.together => Pair::Own([q; 2]),
                () if share => Pair::Shared(parts.map(|part| part.as_mut_ptr().cast())),
                () => Pair::Own([k, v].map(|own| own.as_mut_ptr().cast())),
            },
            rows: layouts.map(|layout| layout.strides[2]),
            scores: of_scores.then_some(scores.as_mut_ptr().cast()),
            products: forward.settings.relative.as_ref().map(|_| products.as_mut_ptr().cast()),
        };
        for_each_chunk(&mut smalls, small.len, work, |i, sums| {
            // SAFETY: the piece's parts lie within the outputs, whose lengths are those of all pieces,
            // and no other piece has them.
            let to = unsafe { outputs.at(i, sizes, &layouts) };
            let head = Head::new(forward, given, sizes, i, to, (&small, sums));
            E::Wide::vectorized(isa, head);
        });
    };
    let mut parts_of = [Vec::new(), Vec::new()];
    // SAFETY: each piece writes all of its parts, and a piece is run for each head of each batch entry.
    let [q, scores, products, own_k, own_v] = unsafe {
        written_together(lens, |own| {
            parts_of = written_together(parts, |parts| run(own, parts));
        })
    };
    let [k, v] = match share {
        true => {
            let [k, v] = parts_of;
            [shared(k, sizes, d), shared(v, sizes, dv)]
        }
        false => [own_k, own_v],
    };
    let table = |range: &Range<usize>| small.by_head(range, &smalls, sizes);
    Gradients {
        q,
        k,
        v,
        scores,
        distances: small.distances.iter().map(table).collect(),
        slopes: small.slopes.iter().map(table).collect(),
        sinks: small.sinks.iter().map(table).collect(),
        products,
        values: small.of_all(&smalls),
    }
}

impl<E: Float> Outputs<E> {
    /// The outputs of one piece.
    ///
    /// # Safety
    ///
    /// There is such a piece.
    unsafe fn at(&self, piece: usize, sizes: Sizes, layouts: &[Layout; 3]) -> Self {
        let Sizes { heads, queries, keys, entries, .. } = sizes;
        let [q, k, v] = layouts.map(|Layout { offset, strides, .. }| {
            offset + piece / heads * strides[0] + piece % heads * strides[1]
        });
        // SAFETY: the caller's.
        unsafe {
            Outputs {
                q: self.q.add(q),
                pair: match self.pair {
                    Pair::Own(to) => Pair::Own([to[0].add(k), to[1].add(v)]),
                    Pair::Shared(to) => Pair::Shared([to[0].add(k), to[1].add(v)]),
                },
                rows: self.rows,
                scores: self.scores.map(|start| start.add(piece * queries * keys)),
                products: self.products.map(|start| start.add(piece * queries * entries)),
            }
        }
    }
}

/// How the gradients of Q, K and V lie, a head's of K and V for each query head.
fn layouts(sizes: Sizes, together: bool) -> [Layout; 3] {
    let Sizes { batch, heads, queries, keys, d, dv, .. } = sizes;
    if together {
        return side_by_side([batch, queries, heads, d]);
    }
    [(queries, d), (keys, d), (keys, dv)]
        .map(|(rows, width)| Layout::packed(&[batch, heads, rows, width]))
}

/// Outputs that are written by one run.
///
/// # Safety
///
/// `run` writes every element of each, unless it panics.
unsafe fn written_together<E: Copy, const N: usize>(
    lens: [usize; N],
    run: impl FnOnce([&mut [MaybeUninit<E>]; N]),
) -> [Vec<E>; N] {
    let mut outputs = lens.map(Vec::with_capacity);
    let mut left = lens.iter();
    let room = |out| Vec::spare_capacity_mut(out).split_at_mut(*left.next().unwrap_or(&0)).0;
    run(outputs.each_mut().map(room));
    for (out, len) in outputs.iter_mut().zip(lens) {
        // SAFETY: the capacity is `len` or more, and the caller vouches for the elements.
        unsafe { out.set_len(len) };
    }
    outputs
}

/// The gradients of keys or values over [B, G, K, width], from those of the heads that share them, added
/// up in order and rounded once.
fn shared<E: Float>(mut of_heads: Vec<E::Wide>, sizes: Sizes, width: usize) -> Vec<E> {
    let Sizes { batch, heads, groups, keys, .. } = sizes;
    let (part, share) = (keys * width, heads.checked_div(groups).unwrap_or(0));
    let mut sums = vec![E::default(); count(&[batch, groups, keys, width])];
    let work = of_heads.len();
    if part > 0 && share > 0 {
        for_each_chunk_pair(
            (&mut sums, part),
            (&mut of_heads, share * part),
            work,
            |_, sum, parts| {
                for (i, sum) in sum.iter_mut().enumerate() {
                    let of_heads = parts[i..].iter().step_by(part);
                    *sum = E::narrow(of_heads.fold(E::Wide::zero(), |sum, &x| sum + x));
                }
            },
        );
    }
    sums
}

/// The place of a piece.
fn place(sizes: Sizes, piece: usize) -> Place {
    let (batch, head) = (piece / sizes.heads, piece % sizes.heads);
    Place { batch, head, heads: sizes.heads, queries: sizes.queries }
}
