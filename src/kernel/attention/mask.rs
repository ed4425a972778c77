//! What hides keys from queries, and what is added to their scores.

use super::blocks::Blocks;
use super::terms::{Distances, Fill, Slopes};
use crate::element::{Float, Real};
use crate::kernel::layout::View;
use num_traits::{Float as _, Zero};
use std::ops::Range;

/// What hides keys from queries, and what is added to the scores of the others. A key is visible where
/// all parts agree that it is. Every view has the sizes [B, H, Q, K], with stride 0 along the axes that
/// it does not tell apart.
#[derive(Clone)]
pub(crate) struct Mask<'a, E> {
    /// The first keys, this many, stand outside of all that follows: every query sees them, and nothing
    /// is added to their scores. All parts count keys from behind them.
    pub(crate) extra: usize,
    /// True where a key may be seen.
    pub(crate) keep: Vec<View<'a, bool>>,
    pub(crate) bands: Vec<Band<'a>>,
    pub(crate) blocks: Vec<Blocks<'a>>,
    /// Added to the scaled scores; −∞ hides as `keep` does.
    pub(crate) bias: Vec<View<'a, E>>,
    pub(crate) slopes: Vec<Slopes<'a, E>>,
    pub(crate) distances: Vec<Distances<'a, E>>,
    pub(crate) fills: Vec<Fill<'a, E>>,
    /// Scores, over [H], that take part in the softmax without a key: their weights go nowhere.
    pub(crate) sinks: Vec<View<'a, E>>,
    /// The batch entry that is the first of this mask, counted in the whole.
    pub(crate) first: usize,
}

/// A run of keys for each query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Band<'a> {
    Diagonal(Diagonal<'a>),
    /// Of each query the keys from the first number up to, but without, the second.
    Ranges(&'a [[usize; 2]]),
}

/// Keys around a query's own position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Diagonal<'a> {
    pub(crate) offset: Offset<'a>,
    /// So many keys before its own position are visible; all if not given.
    pub(crate) behind: Option<usize>,
    /// So many after it.
    pub(crate) ahead: Option<usize>,
    /// The first keys, this many, are visible to every query.
    pub(crate) prefix: usize,
    /// Queries at the positions below this see every key.
    pub(crate) global: usize,
}

/// Query i stands at the position i + offset among the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offset<'a> {
    Same(isize),
    BySample(&'a [isize]),
}

/// What one band shows a query: the keys below `prefix`, and those from `from` up to, but without, `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) prefix: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Offset<'_> {
    /// The position of query `i` of a batch entry.
    pub(super) fn position(self, batch: usize, i: usize) -> isize {
        let offset = match self {
            Offset::Same(offset) => offset,
            Offset::BySample(offsets) => offsets[batch],
        };
        // No tensor has more than isize::MAX elements.
        offset.saturating_add_unsigned(i)
    }

    fn sliced(self, first: usize, count: usize) -> Self {
        match self {
            Offset::Same(_) => self,
            Offset::BySample(offsets) => Offset::BySample(&offsets[first..first + count]),
        }
    }

    /// Whether there is an offset for each of `batch` entries.
    pub(super) fn covers(self, batch: usize) -> bool {
        match self {
            Offset::Same(_) => true,
            Offset::BySample(offsets) => offsets.len() == batch,
        }
    }
}

impl Diagonal<'_> {
    /// Every key, whatever the offset.
    pub(crate) const ALL: Self =
        Diagonal { offset: Offset::Same(0), behind: None, ahead: None, prefix: 0, global: 0 };

    fn reach(self, (batch, i): (usize, usize), keys: usize) -> Reach {
        let position = self.offset.position(batch, i);
        if usize::try_from(position).is_ok_and(|position| position < self.global) {
            return Reach { prefix: 0, from: 0, to: keys };
        }
        let below = |n: isize| usize::try_from(n).unwrap_or(0).min(keys);
        let to = match self.ahead {
            Some(ahead) => below(position.saturating_add(1).saturating_add_unsigned(ahead)),
            None => keys,
        };
        let from = match self.behind {
            Some(behind) => below(position.saturating_sub_unsigned(behind)),
            None => 0,
        };
        Reach { prefix: self.prefix.min(keys), from, to }
    }
}

impl Band<'_> {
    /// What it shows a query of `keys` keys.
    fn reach(self, at @ (_, i): (usize, usize), keys: usize) -> Reach {
        match self {
            Band::Diagonal(diagonal) => diagonal.reach(at, keys),
            Band::Ranges(ranges) => {
                let [from, to] = ranges[i].map(|key| key.min(keys));
                Reach { prefix: 0, from, to }
            }
        }
    }
}

impl Reach {
    /// Both parts as one, where they are one: an empty prefix, or one that meets the rest.
    fn joined(self) -> Self {
        let Reach { prefix, from, to } = self;
        if prefix == 0 {
            Reach { from: from.min(to), ..self }
        } else if from >= to {
            Reach { prefix: 0, from: 0, to: prefix }
        } else if from <= prefix {
            Reach { prefix: 0, from: 0, to: to.max(prefix) }
        } else {
            self
        }
    }

    /// Whether there are two parts.
    pub(super) fn is_split(self) -> bool {
        self.prefix > 0
    }
}

impl<'a, E: Copy> Mask<'a, E> {
    /// Everything is visible.
    pub(crate) const NONE: Self = Mask {
        extra: 0,
        keep: Vec::new(),
        bands: Vec::new(),
        blocks: Vec::new(),
        bias: Vec::new(),
        slopes: Vec::new(),
        distances: Vec::new(),
        fills: Vec::new(),
        sinks: Vec::new(),
        first: 0,
    };

    /// What each band shows a query of `keys` keys, the extra ones among them.
    pub(super) fn reaches(&self, at: (usize, usize), keys: usize) -> impl Iterator<Item = Reach> {
        let extra = self.extra;
        self.bands.iter().map(move |band| {
            let Reach { prefix, from, to } = band.reach(at, keys - extra);
            Reach { prefix: prefix + extra, from: from + extra, to: to + extra }.joined()
        })
    }

    /// The keys beyond which, on either side, the bands let a query see none.
    pub(crate) fn run(&self, at: (usize, usize), keys: usize) -> [usize; 2] {
        self.reaches(at, keys).fold([0, keys], |[from, to], reach| {
            let start = if reach.is_split() { 0 } else { reach.from };
            let (from, to) = (from.max(start), to.min(reach.to));
            [from.min(to), to]
        })
    }

    /// Whether anything is added to scores.
    pub(super) fn adds(&self) -> bool {
        !(self.bias.is_empty()
            && self.slopes.is_empty()
            && self.distances.is_empty()
            && self.fills.is_empty())
    }

    /// The greatest of a head's sinks, and the sum of e to all of them relative to it.
    pub(super) fn sink(&self, head: usize) -> (E::Wide, E::Wide)
    where
        E: Float,
    {
        let at = |sinks: &View<E>| {
            sinks.data[sinks.layout.offset + head * sinks.layout.strides[0]].wide()
        };
        let nothing = E::Wide::neg_infinity();
        let max = self.sinks.iter().map(at).fold(nothing, |max, x| max.max(x));
        let base = if max == nothing { E::Wide::zero() } else { max };
        let total =
            self.sinks.iter().map(at).fold(E::Wide::zero(), |sum, x| sum + (x - base).exp());
        (max, total)
    }

    /// Writes −∞ over the scores of these keys that a query may not see; there are `all` keys.
    pub(super) fn hide_row<R: Real>(
        &self,
        (index @ [batch, head, query], keys, all): ([usize; 3], Range<usize>, usize),
        scores: &mut [R],
    ) {
        let hidden = R::neg_infinity();
        let run = self.run((batch, query), all).map(|key| key.clamp(keys.start, keys.end));
        scores[..run[0] - keys.start].fill(hidden);
        scores[run[1] - keys.start..].fill(hidden);
        for keep in &self.keep {
            let strides = keep.layout.strides;
            let at: usize = index.iter().zip(strides.iter()).map(|(i, stride)| i * stride).sum();
            let at = keep.layout.offset + at;
            for key in run[0].max(self.extra)..run[1] {
                if !keep.data[at + (key - self.extra) * strides[3]] {
                    scores[key - keys.start] = hidden;
                }
            }
        }
        self.hidden_by_parts((batch, head), query, keys.clone(), all, |run| {
            scores[run.start - keys.start..run.end - keys.start].fill(hidden);
        });
    }

    /// Calls `hide` with the runs of keys among these that a query may not see because of the blocks, or
    /// because they lie between the parts of a band. There are `all` keys.
    pub(super) fn hidden_by_parts(
        &self,
        (batch, head): (usize, usize),
        query: usize,
        keys: Range<usize>,
        all: usize,
        mut hide: impl FnMut(Range<usize>),
    ) {
        for reach in self.reaches((batch, query), all).filter(|reach| reach.is_split()) {
            let gap = reach.prefix.max(keys.start)..reach.from.min(keys.end);
            if gap.start < gap.end {
                hide(gap);
            }
        }
        let extra = self.extra;
        let behind = keys.start.max(extra) - extra..keys.end.max(extra) - extra;
        for blocks in &self.blocks {
            if !behind.is_empty() {
                blocks.hidden(head, query, behind.clone(), |run| {
                    hide(run.start + extra..run.end + extra)
                });
            }
        }
    }

    /// The mask of `count` samples from `first` on.
    pub(crate) fn sliced(&self, first: usize, count: usize) -> Mask<'a, E> {
        fn parts<'a, T>(views: &[View<'a, T>], first: usize, count: usize) -> Vec<View<'a, T>> {
            let part = |view: &View<'a, T>| View {
                layout: view.layout.sliced(0, first, count),
                data: view.data,
            };
            views.iter().map(part).collect()
        }
        let offset = |offset: Offset<'a>| offset.sliced(first, count);
        let band = |band: &Band<'a>| match *band {
            Band::Diagonal(band) => {
                Band::Diagonal(Diagonal { offset: offset(band.offset), ..band })
            }
            ranges => ranges,
        };
        Mask {
            extra: self.extra,
            keep: parts(&self.keep, first, count),
            bands: self.bands.iter().map(band).collect(),
            blocks: self.blocks.clone(),
            bias: parts(&self.bias, first, count),
            slopes: self.slopes.iter().map(|x| Slopes { offset: offset(x.offset), ..*x }).collect(),
            distances: self
                .distances
                .iter()
                .map(|x| Distances { offset: offset(x.offset), ..*x })
                .collect(),
            fills: self.fills.clone(),
            sinks: self.sinks.clone(),
            first: self.first + first,
        }
    }

    /// That all parts are for scores of these sizes: what the kernels rely on.
    pub(super) fn check(&self, [batch, heads, queries, keys]: [usize; 4]) {
        assert!(self.extra <= keys);
        let full = [batch, heads, queries, keys - self.extra];
        assert!(self.keep.iter().all(|keep| keep.layout.dims[..] == full));
        assert!(self.bias.iter().all(|bias| bias.layout.dims[..] == full));
        let covered = |band: &Band| match band {
            Band::Diagonal(band) => band.offset.covers(batch),
            Band::Ranges(ranges) => ranges.len() == queries,
        };
        assert!(self.bands.iter().all(covered));
        assert!(
            self.slopes.iter().all(|x| x.offset.covers(batch) && x.each.layout.dims[..] == [heads])
        );
        assert!(
            self.distances
                .iter()
                .all(|x| x.offset.covers(batch) && x.table.layout.dims[0] == heads)
        );
        assert!(self.sinks.iter().all(|sinks| sinks.layout.dims[..] == [heads]));
        assert!(
            self.blocks.iter().all(|blocks| blocks.covers(heads, [queries, keys - self.extra]))
        );
    }
}
