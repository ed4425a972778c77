//! Walking several strided blocks of equal sizes side by side.
//!
//! Axes that one stride reaches in every block are merged first, so packed blocks are one long run
//! however many axes they have. What is left is visited run by run along the last axis; the caller
//! gets the position of each run in each block and steps through it by the inner strides.

use super::layout::{Dims, Layout, MAX_RANK};

/// The common sizes and the strides of `N` blocks.
pub(crate) struct Runs<const N: usize> {
    dims: Dims,
    strides: [Dims; N],
    offsets: [usize; N],
}

impl<const N: usize> Runs<N> {
    /// The layouts must have equal sizes.
    pub(crate) fn new(layouts: [&Layout; N]) -> Self {
        debug_assert!(layouts.iter().all(|layout| layout.dims == layouts[0].dims));
        let mut merged = layouts.map(|layout| *layout);
        for at in (1..merged[0].rank()).rev() {
            let pairs = merged.map(|layout| layout.merged(at - 1));
            if pairs.iter().all(Option::is_some) {
                merged = pairs.map(|layout| layout.unwrap_or(*layouts[0]));
            }
        }
        if merged[0].rank() == 0 {
            merged = merged.map(|layout| Layout {
                dims: Dims::new(&[1]),
                strides: Dims::new(&[0]),
                offset: layout.offset,
            });
        }
        Runs {
            dims: merged[0].dims,
            strides: merged.map(|layout| layout.strides),
            offsets: merged.map(|layout| layout.offset),
        }
    }

    /// The strides within a run.
    pub(crate) fn steps(&self) -> [usize; N] {
        self.strides.map(|strides| strides[strides.len() - 1])
    }

    /// Calls `f` with the positions and the length of every run of the `count` elements from the
    /// row-major position `first` on.
    #[inline]
    pub(crate) fn for_each(
        &self,
        first: usize,
        count: usize,
        mut f: impl FnMut([usize; N], usize),
    ) {
        if count == 0 {
            return;
        }
        let last = self.dims.len() - 1;
        let mut index = [0; MAX_RANK];
        let mut at = self.offsets;
        let mut rest = first;
        for axis in (0..=last).rev() {
            index[axis] = rest % self.dims[axis];
            rest /= self.dims[axis];
            for (at, strides) in at.iter_mut().zip(&self.strides) {
                *at += index[axis] * strides[axis];
            }
        }
        let mut left = count;
        loop {
            let run = left.min(self.dims[last] - index[last]);
            f(at, run);
            left -= run;
            if left == 0 {
                return;
            }
            for (at, strides) in at.iter_mut().zip(&self.strides) {
                *at -= index[last] * strides[last];
            }
            index[last] = 0;
            for axis in (0..last).rev() {
                index[axis] += 1;
                for (at, strides) in at.iter_mut().zip(&self.strides) {
                    *at += strides[axis];
                }
                if index[axis] < self.dims[axis] {
                    break;
                }
                for (at, strides) in at.iter_mut().zip(&self.strides) {
                    *at -= self.dims[axis] * strides[axis];
                }
                index[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_blocks_are_one_run() {
        let layout = Layout::packed(&[2, 3, 4]);
        let mut runs = Vec::new();
        Runs::new([&layout]).for_each(0, 24, |at, len| runs.push((at, len)));
        assert_eq!(runs, [([0], 24)]);
    }

    #[test]
    fn runs_start_anywhere() {
        let layout = Layout::packed(&[3, 2]).transposed();
        let mut positions = Vec::new();
        let runs = Runs::new([&layout]);
        let [step] = runs.steps();
        runs.for_each(1, 4, |[at], len| positions.extend((0..len).map(|i| at + i * step)));
        assert_eq!(positions, [2, 4, 1, 3]);
    }

    #[test]
    fn a_single_element_is_a_run() {
        let layout = Layout { offset: 5, ..Layout::packed(&[]) };
        Runs::new([&layout]).for_each(0, 1, |at, len| assert_eq!((at, len), ([5], 1)));
    }
}
