//! Masks as run-time data, for tests that draw them at random or read them from a
//! file: one description, which the plain loops of `oracle` read entry by entry and
//! the library gets in its own types.

mod typed;

use shapeproof::{
    Attention, Batch, Causal, CausalFromStart, DistanceBias, Element, Float, HeadDim, Heads, Key,
    KvHeads, KvOf, Prefix, Query, ScoreBias, Segments, Size, SlidingWindow, Static, Tensor,
    ValueDim, dispatch, dyn_size,
};

pub(crate) use self::typed::{Scores, Typed, joined, learned};
use self::typed::{blocks, by_axes};

/// The sizes of one attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) dim: usize,
    pub(crate) value: usize,
}

impl Sizes {
    /// As many key/value heads as heads, values as wide as keys.
    pub(crate) fn new(batch: usize, heads: usize, queries: usize, keys: usize, dim: usize) -> Self {
        Sizes { batch, heads, kv_heads: heads, queries, keys, dim, value: dim }
    }

    pub(crate) fn scores(self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }

    /// The numbers of elements of q, k and v.
    pub(crate) fn counts(self) -> [usize; 3] {
        let keys = self.batch * self.kv_heads * self.keys;
        [self.batch * self.heads * self.queries * self.dim, keys * self.dim, keys * self.value]
    }
}

/// Values over some of the axes batch, heads, queries, keys: those marked in `axes`.
#[derive(Clone, Debug)]
pub(crate) struct Over<T> {
    pub(crate) axes: [bool; 4],
    pub(crate) values: Vec<T>,
}

impl<T: Copy> Over<T> {
    /// The value of `make` for each entry.
    pub(crate) fn of(sizes: Sizes, axes: [bool; 4], mut make: impl FnMut() -> T) -> Self {
        let count = axes.iter().zip(sizes.scores()).filter(|(has, _)| **has).map(|(_, n)| n);
        let values = (0..count.product()).map(|_| make()).collect();
        Over { axes, values }
    }

    /// Of values with sizes that are matched from the last axis on, as PyTorch does it:
    /// an axis of size 1, or none, repeats.
    pub(crate) fn matched(sizes: Sizes, dims: &[usize], values: &[T]) -> Self {
        let scores = sizes.scores();
        assert!(dims.len() <= 4, "a mask of {} axes", dims.len());
        let mut full = [1; 4];
        full[4 - dims.len()..].copy_from_slice(dims);
        for (n, size) in full.into_iter().zip(scores) {
            assert!(n == size || n == 1, "a mask of sizes {dims:?} for scores of {scores:?}");
        }
        let mut axes = [0, 1, 2, 3].map(|axis| full[axis] == scores[axis]);
        let repeats = if axes[3] { 1 } else { scores[3] };
        axes[3] = true;
        let repeated = values.iter().flat_map(|value| std::iter::repeat_n(*value, repeats));
        Over { axes, values: repeated.collect() }
    }

    fn at(&self, sizes: Sizes, at: [usize; 4]) -> T {
        let scores = sizes.scores();
        let mut place = 0;
        for axis in (0..4).filter(|&axis| self.axes[axis]) {
            place = place * scores[axis] + at[axis];
        }
        self.values[place]
    }
}

/// One mask among those that are combined.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Keep(Over<bool>),
    Bias(Over<f64>),
    Causal,
    CausalFromStart,
    Prefix(usize),
    /// So many keys before and after a query's own position, and tokens that see and are seen by all.
    Window {
        behind: usize,
        ahead: usize,
        global: usize,
    },
    /// Which blocks of this size are visible: of each head's rows, or of all heads'.
    Blocks {
        size: usize,
        by_head: bool,
        visible: Vec<bool>,
    },
    /// Queries and keys of each segment.
    Segments {
        lengths: Vec<[usize; 2]>,
        causal: bool,
    },
    /// Of each head, a number for each distance from the first on.
    Distances {
        first: isize,
        table: Vec<Vec<f64>>,
    },
}

impl Part {
    /// Whether query `at[2]` may see key `at[3]`.
    pub(crate) fn shows(&self, sizes: Sizes, at: [usize; 4]) -> bool {
        let [.., i, j] = at;
        match self {
            Part::Keep(keep) => keep.at(sizes, at),
            Part::Bias(bias) => bias.at(sizes, at) != f64::NEG_INFINITY,
            Part::Causal => j + sizes.queries <= i + sizes.keys,
            Part::CausalFromStart => j <= i,
            Part::Prefix(n) => j < *n || j + sizes.queries <= i + sizes.keys,
            Part::Window { behind, ahead, global } => {
                let before = distance(sizes, at);
                let tokens = isize::try_from(*global).unwrap();
                let near = -isize::try_from(*behind).unwrap()..=isize::try_from(*ahead).unwrap();
                near.contains(&before)
                    || j < *global
                    || (0..tokens).contains(&(isize::try_from(j).unwrap() - before))
            }
            Part::Blocks { size, by_head, visible } => {
                let [rows, columns] = [sizes.queries / size, sizes.keys / size];
                let head = if *by_head { at[1] } else { 0 };
                visible[(head * rows + i / size) * columns + j / size]
            }
            Part::Segments { lengths, causal } => {
                let (mut query, mut key) = (0, 0);
                lengths.iter().any(|&[queries, keys]| {
                    let inside = (query..query + queries).contains(&i)
                        && (key..key + keys).contains(&j)
                        && (!causal || j - key + queries <= i - query + keys);
                    (query, key) = (query + queries, key + keys);
                    inside
                })
            }
            Part::Distances { .. } => true,
        }
    }

    /// What is added to the score.
    pub(crate) fn bias(&self, sizes: Sizes, at: [usize; 4]) -> f64 {
        match self {
            Part::Bias(bias) => bias.at(sizes, at),
            Part::Distances { first, table } => {
                let entry = usize::try_from(distance(sizes, at) - first).unwrap_or(0);
                table[at[1]][entry.min(table[at[1]].len() - 1)]
            }
            _ => 0.0,
        }
    }

    /// The same as a tensor over all four axes.
    pub(crate) fn spelled_out(&self, sizes: Sizes) -> Part {
        let all = indices(sizes).into_iter();
        let axes = [true; 4];
        match self {
            Part::Bias(_) | Part::Distances { .. } => {
                Part::Bias(Over { axes, values: all.map(|at| self.bias(sizes, at)).collect() })
            }
            _ => Part::Keep(Over { axes, values: all.map(|at| self.shows(sizes, at)).collect() }),
        }
    }

    /// In the library's types.
    pub(crate) fn typed<'a, B, H, Q, K, E>(
        &self,
        shape: Scores<B, H, Q, K>,
    ) -> Typed<'a, B, H, Q, K, E>
    where
        B: Size + 'a,
        H: Size + 'a,
        Q: Size + 'a,
        K: Size + 'a,
        E: Float,
    {
        match self {
            Part::Keep(keep) => by_axes!(keep, shape, keep.values.clone(), |keep| keep),
            Part::Bias(bias) => by_axes!(bias, shape, narrowed(&bias.values), ScoreBias),
            Part::Causal => Box::new(Causal),
            Part::CausalFromStart => Box::new(CausalFromStart),
            Part::Prefix(n) => Box::new(Prefix(*n)),
            &Part::Window { behind, ahead, global } => {
                Box::new(SlidingWindow::beside(behind, ahead).with_global(global))
            }
            Part::Blocks { size, by_head, visible } => blocks(*size, *by_head, visible, shape),
            Part::Segments { lengths, causal } => {
                let [queries, keys] =
                    [0, 1].map(|of| lengths.iter().map(|l| l[of]).collect::<Vec<_>>());
                let (_, _, query, key) = shape;
                let segments = Segments::try_between(query, key, &queries, &keys).unwrap();
                Box::new(if *causal { segments.causal() } else { segments })
            }
            Part::Distances { first, table } => {
                let last = first + isize::try_from(table[0].len()).unwrap() - 1;
                let entry = |h: usize, distance| {
                    E::from_f64(table[h][usize::try_from(distance - first).unwrap()])
                };
                Box::new(DistanceBias::from_fn(shape.1, *first..=last, entry))
            }
        }
    }
}

/// From a query's position, the queries being at the end of the keys, to a key.
fn distance(sizes: Sizes, [_, _, i, j]: [usize; 4]) -> isize {
    let [queries, keys, i, j] =
        [sizes.queries, sizes.keys, i, j].map(|n| isize::try_from(n).unwrap());
    j - (i + keys - queries)
}

/// Every index of the scores, in order.
pub(crate) fn indices(sizes: Sizes) -> Vec<[usize; 4]> {
    let [batch, heads, queries, keys] = sizes.scores();
    let mut all = Vec::new();
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..queries {
                all.extend((0..keys).map(|j| [b, h, i, j]));
            }
        }
    }
    all
}

/// Rounded to the element type.
pub(crate) fn narrowed<E: Float>(values: &[f64]) -> Vec<E> {
    values.iter().map(|&x| E::from_f64(x)).collect()
}

/// Widened: exact.
pub(crate) fn widened<E: Float>(values: &[E]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

/// The library's attention in the element type `E`, with its weights: run-time sizes
/// but for the heads. What comes back is widened, so its bits are those computed.
pub(crate) fn attend<E: Float>(
    sizes: Sizes,
    inputs: [&[f64]; 3],
    scale: Option<f64>,
    parts: &[Part],
) -> (Vec<f64>, Vec<f64>) {
    let heads = (sizes.heads, sizes.kv_heads);
    if heads.0 == heads.1 {
        return dispatch!((sizes.heads) as (H) in [(1), (2), (3), (4), (5), (6), (7)] =>
            attend_over::<H, Heads<H>, E>(sizes, Heads(H::default()), inputs, scale, parts))
        .unwrap();
    }
    dispatch!((heads.0, heads.1) as (H, G) in [(2, 1), (3, 1), (4, 1), (4, 2), (6, 1), (6, 2), (6, 3)] =>
        attend_over::<H, KvHeads<G>, E>(sizes, KvHeads(G::default()), inputs, scale, parts))
    .unwrap()
}

fn attend_over<H: Static, KV: KvOf<Heads<H>>, E: Float>(
    sizes: Sizes,
    kv_heads: KV,
    [q, k, v]: [&[f64]; 3],
    scale: Option<f64>,
    parts: &[Part],
) -> (Vec<f64>, Vec<f64>) {
    dyn_size!(batch = sizes.batch, queries = sizes.queries, keys = sizes.keys);
    dyn_size!(dim = sizes.dim, value = sizes.value);
    let (batch, heads, query, key) = (Batch(batch), Heads(H::default()), Query(queries), Key(keys));
    let q = Tensor::try_from_vec((batch, heads, query, HeadDim(dim)), narrowed::<E>(q)).unwrap();
    let k = Tensor::try_from_vec((batch, kv_heads, key, HeadDim(dim)), narrowed(k)).unwrap();
    let v = Tensor::try_from_vec((batch, kv_heads, key, ValueDim(value)), narrowed(v)).unwrap();
    let parts: Vec<_> = parts.iter().map(|part| part.typed((batch, heads, query, key))).collect();
    let attention = scale.map_or(Attention::new(), |scale| Attention::new().scale(scale));
    let (out, weights) = attention.apply_with_weights(&q, &k, &v, joined(&parts));
    let alone = attention.apply(&q, &k, &v, joined(&parts));
    assert_same(&alone.to_vec(), &out.to_vec(), "with weights and without");
    (widened(&out.to_vec()), widened(&weights.to_vec()))
}

/// Attention with and without its weights may go two ways, but not to two places.
fn assert_same<E: Float>(alone: &[E], beside: &[E], what: &str) {
    let (rtol, atol) = crate::oracle::tolerance::<E>();
    crate::fixtures::assert_close(what, &widened(alone), &widened(beside), rtol, atol);
}

/// The bits, so that NaN and −0 compare.
pub(crate) fn bits<E: Element + Float>(values: &[E]) -> Vec<u64> {
    values.iter().map(|x| x.to_f64().to_bits()).collect()
}
