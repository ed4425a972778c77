//! Which keys a group of queries of one head sees, block by block.

use super::Settings;
use super::mask::{Mask, Reach};
use super::terms::{Scores, soften};
use crate::element::{Float, Real};
use crate::kernel::layout::View;
use crate::kernel::simd::Vector;
use crate::kernel::tile::columns;
use num_traits::Float as _;
use std::f64::consts::LOG2_E;
use std::ops::Range;

/// How much of a block is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visible {
    Nothing,
    Some,
    All,
}

/// The mask for one head and a group of its queries. Scores and flags are laid out key by key, with
/// `width` places for the queries of each.
pub(super) struct HeadMask<'a, E> {
    mask: &'a Mask<'a, E>,
    batch: usize,
    head: usize,
    queries: Range<usize>,
    width: usize,
    /// All keys, visible or not.
    keys: usize,
    /// For each query, the run of keys outside of which the bands let it see none. Empty without bands.
    runs: Vec<[usize; 2]>,
    /// Where the runs begin and end.
    bounds: [usize; 2],
    /// Whether a band has two parts, so that not all of a run may be visible.
    split: bool,
    /// Of the block that was looked at last: for each of `width` queries, where its run begins and where
    /// it ends; empty where all of them have all of the block.
    from: Vec<i32>,
    seen: Vec<i32>,
    /// Likewise, flag by flag; empty where there are no flags.
    visible: Vec<bool>,
}

impl<'a, E: Float> HeadMask<'a, E> {
    pub(super) fn new(
        mask: &'a Mask<'a, E>,
        (batch, head): (usize, usize),
        queries: Range<usize>,
        width: usize,
        keys: usize,
    ) -> Self {
        let runs: Vec<_> = match mask.bands.is_empty() {
            true => Vec::new(),
            false => queries.clone().map(|i| mask.run((batch, i), keys)).collect(),
        };
        let seen = runs.iter().filter(|[from, to]| from < to);
        let bounds = match mask.bands.is_empty() {
            true => [0, keys],
            false => seen.fold([keys, 0], |[from, to], run| [from.min(run[0]), to.max(run[1])]),
        };
        let is_split = |i| mask.reaches((batch, i), keys).any(Reach::is_split);
        let split = !runs.is_empty() && queries.clone().any(is_split);
        let (from, seen, visible) = (Vec::new(), Vec::new(), Vec::new());
        HeadMask {
            mask,
            batch,
            head,
            queries,
            width,
            keys,
            runs,
            bounds,
            split,
            from,
            seen,
            visible,
        }
    }

    /// The next keys from `first` on, without a gap, of which some query may see some.
    pub(super) fn next(&self, first: usize) -> Range<usize> {
        let extra = self.mask.extra;
        let mut run = first.max(self.bounds[0])..self.bounds[1];
        for blocks in &self.mask.blocks {
            if run.start < extra {
                run.end = run.end.min(extra);
            } else {
                let next = blocks.next(self.head, &self.queries, run.start - extra);
                run = run.start.max(next.start + extra)..run.end.min(next.end + extra);
            }
        }
        if self.split && self.mask.blocks.is_empty() {
            run = self.next_of_parts(run);
        }
        run.start..run.end.max(run.start)
    }

    /// Leaves out the gap between the parts of a band, if all its queries have one.
    fn next_of_parts(&self, run: Range<usize>) -> Range<usize> {
        let each = |i| self.mask.reaches((self.batch, i), self.keys);
        let mut next = run.clone();
        for band in 0..self.mask.bands.len() {
            let parts = self.queries.clone().filter_map(|i| each(i).nth(band));
            let (mut prefix, mut from) = (0, usize::MAX);
            for reach in parts {
                prefix = prefix.max(reach.prefix);
                from = from.min(if reach.from < reach.to { reach.from } else { usize::MAX });
            }
            if prefix < from {
                match next.start < prefix {
                    true => next.end = next.end.min(prefix),
                    false => next.start = next.start.max(from),
                }
            }
        }
        next
    }

    /// Looks up a block of keys in bands, blocks and flags.
    pub(super) fn look(&mut self, keys: Range<usize>) -> Visible {
        self.from.clear();
        self.seen.clear();
        self.visible.clear();
        let next = self.next(keys.start);
        if next.is_empty() || next.start >= keys.end {
            self.from.resize(self.width, 0);
            self.seen.resize(self.width, 0);
            return Visible::Nothing;
        }
        if self.runs.iter().any(|&[from, to]| from > keys.start || to < keys.end) {
            self.look_up_runs(&keys);
        }
        let mask = self.mask;
        if mask.keep.is_empty() && mask.blocks.is_empty() && !self.split {
            let most = self.seen.iter().zip(&self.from).map(|(seen, from)| seen - from).max();
            return match most {
                None => Visible::All,
                Some(..=0) => Visible::Nothing,
                Some(_) => Visible::Some,
            };
        }
        self.flag(keys.clone());
        let queries = self.queries.len();
        let rows = self.visible.chunks_exact(self.width);
        let count: usize = rows.map(|row| row[..queries].iter().filter(|&&v| v).count()).sum();
        match count {
            0 => Visible::Nothing,
            count if count == keys.len() * queries => Visible::All,
            _ => Visible::Some,
        }
    }

    fn look_up_runs(&mut self, keys: &Range<usize>) {
        let inside = |key: usize| key.clamp(keys.start, keys.end) - keys.start;
        let as_i32 = |n| i32::try_from(n).unwrap_or(i32::MAX);
        self.from.extend(self.runs.iter().map(|run| as_i32(inside(run[0]))));
        self.seen.extend(self.runs.iter().map(|run| as_i32(inside(run[1]))));
        self.from.resize(self.width, 0);
        self.seen.resize(self.width, 0);
    }

    /// Writes the flags of a block.
    fn flag(&mut self, keys: Range<usize>) {
        let (width, queries) = (self.width, self.queries.len());
        self.visible.resize(keys.len() * width, true);
        for (flags, j) in self.visible.chunks_exact_mut(width).zip(0..) {
            let runs = self.from.iter().zip(&self.seen);
            let inside = |(from, seen): (&i32, &i32)| *from <= j && j < *seen;
            flags.iter_mut().zip(runs).for_each(|(flag, run)| *flag = inside(run));
        }
        let first = keys.start.max(self.mask.extra).min(keys.end) - keys.start;
        for keep in &self.mask.keep {
            let (at, [query, key]) = self.start(keep, keys.start + first);
            for (j, flags) in self.visible[first * width..].chunks_exact_mut(width).enumerate() {
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
        let (mask, place) = (self.mask, (self.batch, self.head));
        for (i, query) in self.queries.clone().enumerate() {
            mask.hidden_by_parts(place, query, keys.clone(), self.keys, |hidden| {
                for key in hidden {
                    self.visible[(key - keys.start) * width + i] = false;
                }
            });
        }
    }

    /// How many of the `keys` keys of the block the bands let any of these queries see: beyond them
    /// none is visible.
    #[inline(always)]
    pub(super) fn bound(&self, queries: Range<usize>, keys: usize) -> usize {
        let seen = self.seen.get(queries.start..queries.end.min(self.seen.len()));
        let most = seen.and_then(|seen| seen.iter().max());
        most.map_or(keys, |&most| usize::try_from(most).unwrap_or(0).min(keys))
    }

    /// The scores of a block of keys from `first` on, which are binary logarithms.
    #[inline(always)]
    pub(super) fn window<'s, R: Real>(&self, first: usize, scores: &'s mut [R]) -> Scores<'s, R> {
        Scores {
            batch: self.batch,
            head: self.head,
            queries: self.queries.clone(),
            keys: first..first + scores.len() / self.width,
            data: scores,
            strides: [1, self.width],
            unit: R::from_f64(LOG2_E),
        }
    }

    /// Takes the products of a block of keys from `first` on to scores, but for the mask: adds what belongs
    /// to them, and caps them.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; there are whole vectors of scores.
    #[inline(always)]
    pub(super) unsafe fn finish_products<V: Vector>(
        &self,
        settings: &Settings<E>,
        first: usize,
        scores: &mut [V::Scalar],
    ) where
        E: Float<Wide = V::Scalar>,
    {
        if let Some(relative) = &settings.relative {
            self.window(first, scores).add_relative(relative, settings.scale);
        }
        if let Some(cap) = settings.softcap {
            // SAFETY: the caller's.
            unsafe { soften::<V>(scores, V::Scalar::from_f64(cap * LOG2_E)) }
        }
    }

    /// Adds what the mask adds to the scores of the block, then hides what [`look`](Self::look) found
    /// hidden. Beyond the [`bound`](Self::bound) of each tile's columns, scores are of no interest.
    #[inline(always)]
    pub(super) fn apply<V: Vector>(&self, visible: Visible, first: usize, scores: &mut [V::Scalar])
    where
        E: Float<Wide = V::Scalar>,
    {
        if self.mask.adds() {
            self.window(first, scores).add_terms(self.mask);
        }
        if visible == Visible::All {
            return;
        }
        if self.visible.is_empty() {
            return self.apply_runs(columns::<V>(), scores);
        }
        for (score, &visible) in scores.iter_mut().zip(&self.visible) {
            *score = if visible { *score } else { V::Scalar::neg_infinity() };
        }
    }

    /// Hides what [`apply`](Self::apply) leaves alone: what lies beyond the bounds of each tile's columns.
    pub(super) fn hide_beyond_bounds<R: Real>(&self, step: usize, scores: &mut [R]) {
        let keys = scores.len() / self.width;
        for panel in (0..self.width).step_by(step) {
            let bound = self.bound(panel..panel + step, keys);
            for row in scores[bound * self.width..].chunks_exact_mut(self.width) {
                row[panel..panel + step].fill(R::neg_infinity());
            }
        }
    }

    /// Hides what lies outside of the runs.
    #[inline(always)]
    fn apply_runs<R: Real>(&self, step: usize, scores: &mut [R]) {
        let keys = scores.len() / self.width;
        let as_usize = |n: Option<&i32>| n.map_or(0, |&n| usize::try_from(n).unwrap_or(0));
        for panel in (0..self.width).step_by(step) {
            let queries = panel..self.queries.len().min(panel + step);
            let bound = self.bound(queries.clone(), keys);
            let least = as_usize(self.seen[queries.clone()].iter().min());
            let most = as_usize(self.from[queries].iter().max()).min(bound);
            let from = &self.from[panel..panel + step];
            let seen = &self.seen[panel..panel + step];
            for key in (0..most).chain(least.max(most)..bound) {
                let j = i32::try_from(key).unwrap_or(i32::MAX);
                let scores = &mut scores[key * self.width + panel..][..step];
                // Whole vectors at a time; a tile has a multiple of 4 columns.
                let runs = from.as_chunks::<4>().0.iter().zip(seen.as_chunks::<4>().0);
                for (scores, (from, seen)) in scores.as_chunks_mut::<4>().0.iter_mut().zip(runs) {
                    for ((score, &from), &seen) in scores.iter_mut().zip(from).zip(seen) {
                        let inside = (from <= j) & (j < seen);
                        *score = if inside { *score } else { R::neg_infinity() };
                    }
                }
            }
        }
    }

    /// Where a view has the first query and the key `first`, and its strides over queries and keys.
    fn start<T>(&self, view: &View<T>, first: usize) -> (usize, [usize; 2]) {
        let strides = view.layout.strides;
        let key = first - self.mask.extra.min(first);
        let index = [self.batch, self.head, self.queries.start, key];
        let at: usize = index.iter().zip(strides.iter()).map(|(i, stride)| i * stride).sum();
        (view.layout.offset + at, [strides[2], strides[3]])
    }
}
