//! Work along one axis: every line of a view is brought into contiguous scratch and handed over.
//!
//! Lines are handled in groups of a fixed number of elements, one group a piece of work. Loading
//! runs along whichever axis is contiguous: along the line where its stride is 1, across the lines
//! of the group otherwise. What is computed from a line sees the same values in the same order for
//! any strides.

use super::layout::View;
use super::parallel::for_each_chunk;
use super::runs::Runs;
use crate::element::Element;

/// Elements that one piece of work loads, unless a single line is longer.
const GROUP: usize = 1 << 13;
/// The most lines in one piece of work.
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

    /// Lines in one piece of work.
    pub(super) fn group(&self) -> usize {
        (GROUP / self.len.max(1)).clamp(1, MAX_LINES)
    }

    /// Writes `load` of the elements of lines `first..` to `buffer`, one line after the other, as
    /// many as it holds.
    pub(super) fn load<T>(&self, first: usize, buffer: &mut [T], load: impl Fn(E) -> T) {
        if self.len == 0 {
            return;
        }
        let mut rest = buffer;
        let [step] = self.outer.steps();
        self.outer.for_each(first, rest.len() / self.len, |[at], lines| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(lines * self.len);
            rest = others;
            if self.stride == 1 {
                for (i, line) in part.chunks_exact_mut(self.len).enumerate() {
                    let from = &self.data[at + i * step..][..self.len];
                    line.iter_mut().zip(from).for_each(|(to, &x)| *to = load(x));
                }
            } else {
                for i in 0..self.len {
                    let at = at + i * self.stride;
                    for (line, to) in part[i..].iter_mut().step_by(self.len).enumerate() {
                        *to = load(self.data[at + line * step]);
                    }
                }
            }
        });
    }

    /// Calls `f` with every line, converted by `load`, and its `out_len` elements of `out`.
    /// `cost` is the number of operations for each element, roughly.
    pub(super) fn for_each<T: Copy + Default, O: Send>(
        &self,
        (out, out_len): (&mut [O], usize),
        cost: usize,
        load: impl Fn(E) -> T + Sync,
        f: impl Fn(&mut [T], &mut [O]) + Sync,
    ) {
        if out_len == 0 {
            return;
        }
        let group = self.group();
        let work = self.count * self.len.max(1) * cost;
        for_each_chunk(out, group * out_len, work, |i, out| {
            let lines = out.len() / out_len;
            let mut buffer = vec![T::default(); lines * self.len];
            self.load(i * group, &mut buffer, &load);
            for (line, out) in out.chunks_exact_mut(out_len).enumerate() {
                f(&mut buffer[line * self.len..][..self.len], out);
            }
        });
    }
}
