//! Work along one axis, line by line.
//!
//! Where the elements of a line are neighbours it is read where it lies; otherwise lines are brought
//! together, a group of them at a time, running across the lines so that each part of memory is
//! fetched once. What is computed from a line sees the same values in the same order for any strides.

use super::layout::View;
use super::output::{written, written_in_chunks};
use super::runs::Runs;
use crate::element::Element;
use std::mem::MaybeUninit;

/// Elements in a group, unless a single line is longer.
const GROUP: usize = 1 << 13;
/// The least lines in a group of lines that run across the memory.
const LEAST_LINES: usize = 16;
/// How far lines are followed at a time: lines that are a power of two long lie in the same few places of
/// the nearest cache, so each is written by whole lines of that.
const STRIP: usize = 16;
/// The most lines in a group.
const MAX_LINES: usize = 1 << 10;

/// The lines of a view along one axis, numbered in row-major order of the other axes.
pub(super) struct Lines<'a, E> {
    data: &'a [E],
    outer: Runs<1>,
    /// How many there are.
    pub(super) count: usize,
    /// Elements in each.
    pub(super) len: usize,
    stride: usize,
}

impl<'a, E: Element> Lines<'a, E> {
    pub(super) fn new(view: View<'a, E>, at: usize) -> Self {
        let (len, stride) = (view.layout.dims[at], view.layout.strides[at]);
        let mut outer = view.layout;
        outer.dims = outer.dims.removed(at);
        outer.strides = outer.strides.removed(at);
        Lines { data: view.data, outer: Runs::new([&outer]), count: outer.count(), len, stride }
    }

    /// Lines in one piece of work: where they are brought together, as many as share lines of the cache,
    /// unless they are very long.
    pub(super) fn group(&self) -> usize {
        let least = if self.are_slices() || self.len > GROUP { 1 } else { LEAST_LINES };
        (GROUP / self.len.max(1)).clamp(least, MAX_LINES)
    }

    /// Whether the elements of a line are neighbours.
    pub(super) fn are_slices(&self) -> bool {
        self.stride == 1 || self.len <= 1
    }

    /// For lines that are slices: calls `f` with memory in which lines lie at one distance from each
    /// other, that distance and their number, until all of the `count` lines from `first` on were
    /// there.
    pub(super) fn for_each_run(
        &self,
        first: usize,
        count: usize,
        mut f: impl FnMut(&'a [E], usize, usize),
    ) {
        debug_assert!(self.are_slices());
        let [step] = self.outer.steps();
        self.outer.for_each(first, count, |[at], lines| {
            let end = at + (lines - 1) * step + self.len;
            f(if self.len == 0 { &[] } else { &self.data[at..end] }, step, lines);
        });
    }

    /// Calls `f` with each of the `count` lines from `first` on, numbered from 0.
    pub(super) fn for_each(&self, first: usize, count: usize, mut f: impl FnMut(usize, &[E])) {
        let n = self.len;
        if n == 0 {
            (0..count).for_each(|line| f(line, &[]));
        } else if self.are_slices() {
            let mut done = 0;
            self.for_each_run(first, count, |lines, step, count| {
                (0..count).for_each(|line| f(done + line, &lines[line * step..][..n]));
                done += count;
            });
        } else {
            // SAFETY: `load` writes all of what it is given.
            let group = unsafe { written(count * n, |group| _ = self.load(first, group)) };
            group.chunks_exact(n).enumerate().for_each(|(line, elements)| f(line, elements));
        }
    }

    /// Copies lines `first..` to `group`, one after the other, as many as it holds; gives them back.
    pub(super) fn load<'b>(&self, first: usize, group: &'b mut [MaybeUninit<E>]) -> &'b mut [E] {
        if self.len == 0 {
            return &mut [];
        }
        let [step] = self.outer.steps();
        let mut rest = &mut *group;
        self.outer.for_each(first, rest.len() / self.len, |[at], lines| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(lines * self.len);
            rest = others;
            if self.are_slices() {
                for (i, line) in part.chunks_exact_mut(self.len).enumerate() {
                    line.write_copy_of_slice(&self.data[at + i * step..][..self.len]);
                }
                return;
            }
            for i in (0..self.len).step_by(STRIP) {
                let strip = i..self.len.min(i + STRIP);
                for (line, to) in part.chunks_exact_mut(self.len).enumerate() {
                    for (i, to) in strip.clone().zip(&mut to[strip.clone()]) {
                        to.write(self.data[at + line * step + i * self.stride]);
                    }
                }
            }
        });
        assert!(rest.is_empty());
        // SAFETY: nothing is left that was not written: every run wrote all elements of its lines.
        unsafe { group.assume_init_mut() }
    }

    /// `f` of every line. `cost` is the number of operations for each element, roughly.
    pub(super) fn map<O: Element>(&self, cost: usize, f: impl Fn(&[E]) -> O + Sync) -> Vec<O> {
        let group = self.group();
        let work = self.count * self.len.max(1) * cost;
        let write = |i, out: &mut [MaybeUninit<O>]| {
            self.for_each(i * group, out.len(), |line, elements| _ = out[line].write(f(elements)));
        };
        // SAFETY: `for_each` calls back for every line of a chunk.
        unsafe { written_in_chunks(self.count, group, work, write) }
    }
}
