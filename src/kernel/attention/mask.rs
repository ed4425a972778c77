//! Which keys a query sees.

use crate::element::{Float, Real};
use crate::kernel::layout::View;
use std::f64::consts::LOG2_E;
use std::ops::Range;

/// A bound on the keys: query i sees key j where j ≤ i + `offset`, or j < `prefix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    pub(crate) offset: isize,
    pub(crate) prefix: usize,
}

impl Band {
    /// Query `i` sees the keys below this, and no others.
    fn limit(self, i: usize) -> usize {
        (i + 1).saturating_add_signed(self.offset).max(self.prefix)
    }
}

/// What hides keys from queries, and what is added to their scores. A key is visible where all parts
/// agree that it is. Every view has the sizes [B, H, Q, K], with stride 0 along the axes that it
/// does not tell apart.
#[derive(Clone, Debug)]
pub(crate) struct Mask<'a, E> {
    /// True where a key may be seen.
    pub(crate) keep: Vec<View<'a, bool>>,
    pub(crate) bands: Vec<Band>,
    /// Added to the scaled scores; −∞ hides as `keep` does.
    pub(crate) bias: Vec<View<'a, E>>,
}

/// How much of a block is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visible {
    Nothing,
    Some,
    All,
}

/// The mask for one head and a block of its queries. Scores and flags are laid out key by key, with
/// `width` places for the queries of each.
pub(super) struct HeadMask<'a, E> {
    mask: &'a Mask<'a, E>,
    batch: usize,
    head: usize,
    queries: Range<usize>,
    width: usize,
    /// For each query, the keys that the bands let it see are those below. Empty without bands.
    limits: Vec<usize>,
    /// Of the block that was looked at last: for each of `width` queries, how many of its keys the
    /// bands let it see; empty where all.
    seen: Vec<i32>,
    /// Likewise, flag by flag; empty where there are no flags.
    visible: Vec<bool>,
}

impl<E> Mask<'_, E> {
    /// Everything is visible.
    pub(crate) const NONE: Self = Mask { keep: Vec::new(), bands: Vec::new(), bias: Vec::new() };

    /// The bands let query `i` see those of `keys` keys that are below this.
    pub(super) fn limit(&self, i: usize, keys: usize) -> usize {
        self.bands.iter().fold(keys, |limit, band| limit.min(band.limit(i)))
    }
}

impl<'a, E> Mask<'a, E> {
    /// The mask of `count` samples from `first` on.
    pub(crate) fn sliced(&self, first: usize, count: usize) -> Mask<'a, E> {
        fn part<'a, T>(view: &View<'a, T>, first: usize, count: usize) -> View<'a, T> {
            View { layout: view.layout.sliced(0, first, count), data: view.data }
        }
        Mask {
            keep: self.keep.iter().map(|keep| part(keep, first, count)).collect(),
            bands: self.bands.clone(),
            bias: self.bias.iter().map(|bias| part(bias, first, count)).collect(),
        }
    }
}

impl<'a, E: Float> HeadMask<'a, E> {
    pub(super) fn new(
        mask: &'a Mask<'a, E>,
        (batch, head): (usize, usize),
        queries: Range<usize>,
        width: usize,
        keys: usize,
    ) -> Self {
        let limits = match mask.bands.is_empty() {
            true => Vec::new(),
            false => queries.clone().map(|i| mask.limit(i, keys)).collect(),
        };
        let (seen, visible) = (Vec::new(), Vec::new());
        HeadMask { mask, batch, head, queries, width, limits, seen, visible }
    }

    /// No query sees a key from here on.
    pub(super) fn end(&self, keys: usize) -> usize {
        self.limits.iter().copied().max().unwrap_or(keys)
    }

    /// Looks up a block of keys in bands and flags.
    pub(super) fn look(&mut self, keys: Range<usize>) -> Visible {
        self.seen.clear();
        self.visible.clear();
        if self.limits.iter().any(|&limit| limit < keys.end) {
            let seen = |&limit: &usize| limit.clamp(keys.start, keys.end) - keys.start;
            let as_i32 = |n| i32::try_from(n).unwrap_or(i32::MAX);
            self.seen.extend(self.limits.iter().map(|limit| as_i32(seen(limit))));
            self.seen.resize(self.width, 0);
        }
        if self.mask.keep.is_empty() {
            return match self.seen.iter().max() {
                None => Visible::All,
                Some(0) => Visible::Nothing,
                Some(_) => Visible::Some,
            };
        }
        let (width, queries) = (self.width, self.queries.len());
        self.visible.resize(keys.len() * width, true);
        for (flags, j) in self.visible.chunks_exact_mut(width).zip(0..) {
            flags.iter_mut().zip(&self.seen).for_each(|(flag, &seen)| *flag = j < seen);
        }
        for keep in &self.mask.keep {
            let (at, [query, key]) = self.start(keep, keys.start);
            for (j, flags) in self.visible.chunks_exact_mut(width).enumerate() {
                let at = at + j * key;
                if query == 0 {
                    if !keep.data[at] {
                        flags.fill(false);
                    }
                } else {
                    let keep = keep.data[at..].iter().step_by(query);
                    flags[..queries].iter_mut().zip(keep).for_each(|(flag, &keep)| *flag &= keep);
                }
            }
        }
        let rows = self.visible.chunks_exact(width);
        let count: usize = rows.map(|row| row[..queries].iter().filter(|&&v| v).count()).sum();
        match count {
            0 => Visible::Nothing,
            count if count == keys.len() * queries => Visible::All,
            _ => Visible::Some,
        }
    }

    /// How many of the `keys` keys of the block the bands let any of these queries see.
    #[inline(always)]
    pub(super) fn bound(&self, queries: Range<usize>, keys: usize) -> usize {
        let seen = self.seen.get(queries.start..queries.end.min(self.seen.len()));
        let most = seen.and_then(|seen| seen.iter().max());
        most.map_or(keys, |&most| usize::try_from(most).unwrap_or(0).min(keys))
    }

    /// Adds the biases to the scores of the block, which are binary logarithms, then hides what
    /// [`look`](Self::look) found hidden. Beyond the [`bound`](Self::bound) of each `step` queries,
    /// scores are of no interest.
    #[inline(always)]
    pub(super) fn apply<R: Real>(
        &self,
        visible: Visible,
        first: usize,
        step: usize,
        scores: &mut [R],
    ) where
        E: Float<Wide = R>,
    {
        let queries = self.queries.len();
        let hidden = R::neg_infinity();
        let log2_e = R::from_f64(LOG2_E);
        for bias in &self.mask.bias {
            let (at, [query, key]) = self.start(bias, first);
            for (j, scores) in scores.chunks_exact_mut(self.width).enumerate() {
                for (i, score) in scores[..queries].iter_mut().enumerate() {
                    let bias = bias.data[at + j * key + i * query].wide();
                    // What is hidden stays so: −∞ and another bias of ∞ or NaN would be NaN.
                    let hide = bias == hidden || *score == hidden;
                    let sum = bias * log2_e + *score;
                    // The least and the greatest number stay finite in the other base too.
                    let overflows = sum.is_infinite() && bias.is_finite() && score.is_finite();
                    let sum = if overflows { bias } else { sum };
                    *score = if hide { hidden } else { sum };
                }
            }
        }
        if visible == Visible::All {
            return;
        }
        if self.visible.is_empty() {
            return self.apply_bands(step, scores);
        }
        for (score, &visible) in scores.iter_mut().zip(&self.visible) {
            *score = if visible { *score } else { hidden };
        }
    }

    /// Hides what the bands hide.
    #[inline(always)]
    fn apply_bands<R: Real>(&self, step: usize, scores: &mut [R]) {
        let keys = scores.len() / self.width;
        for panel in (0..self.width).step_by(step) {
            let queries = panel..self.queries.len().min(panel + step);
            let bound = self.bound(queries.clone(), keys);
            let least = self.seen[queries].iter().copied().min().unwrap_or(0);
            let seen = &self.seen[panel..panel + step];
            for key in usize::try_from(least).unwrap_or(0)..bound {
                let j = i32::try_from(key).unwrap_or(i32::MAX);
                let scores = &mut scores[key * self.width + panel..][..step];
                // Whole vectors at a time; a tile has a multiple of 4 columns.
                for (scores, seen) in
                    scores.as_chunks_mut::<4>().0.iter_mut().zip(seen.as_chunks::<4>().0)
                {
                    for (score, &seen) in scores.iter_mut().zip(seen) {
                        *score = if j < seen { *score } else { R::neg_infinity() };
                    }
                }
            }
        }
    }

    /// Where a view has the first query and the key `first`, and its strides over queries and keys.
    #[inline(always)]
    fn start<T>(&self, view: &View<T>, first: usize) -> (usize, [usize; 2]) {
        let strides = view.layout.strides;
        let index = [self.batch, self.head, self.queries.start, first];
        let at: usize = index.iter().zip(strides.iter()).map(|(i, stride)| i * stride).sum();
        (view.layout.offset + at, [strides[2], strides[3]])
    }
}
