//! Which blocks of queries and keys are visible.

use std::ops::Range;

/// For each row of blocks, the blocks of keys that its queries may see; all other keys are hidden from
/// them. Rows and columns are counted in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    /// Queries and keys in a block; the last of either may be shorter.
    pub(crate) size: [usize; 2],
    /// Where each row's columns start and end: one number more than there are rows.
    pub(crate) starts: &'a [usize],
    /// Ascending within a row.
    pub(crate) columns: &'a [usize],
    /// Rows of one head; those of the next follow, unless all heads share them.
    pub(crate) rows: usize,
    pub(crate) by_head: bool,
}

impl Blocks<'_> {
    /// The visible columns of a row.
    fn row(&self, head: usize, row: usize) -> &[usize] {
        let row = if self.by_head { head * self.rows + row } else { row };
        &self.columns[self.starts[row]..self.starts[row + 1]]
    }

    /// The rows of blocks that queries lie in.
    fn rows(&self, queries: &Range<usize>) -> Range<usize> {
        queries.start / self.size[0]..queries.end.div_ceil(self.size[0])
    }

    /// Whether it is for so many heads, queries and keys.
    pub(super) fn covers(&self, heads: usize, [queries, keys]: [usize; 2]) -> bool {
        let lists = if self.by_head { heads * self.rows } else { self.rows };
        self.size.iter().all(|&size| size > 0)
            && self.rows == queries.div_ceil(self.size[0])
            && self.starts.len() == lists + 1
            && self.starts.is_sorted()
            && self.starts.last().is_some_and(|&end| end <= self.columns.len())
            && self.columns.iter().all(|&column| column < keys.div_ceil(self.size[1]))
    }

    /// The next keys from `first` on of which some may be visible to some of the queries, without a gap.
    pub(super) fn next(&self, head: usize, queries: &Range<usize>, first: usize) -> Range<usize> {
        let width = self.size[1];
        let column = first / width;
        let rows = || self.rows(queries).map(|row| self.row(head, row));
        let from = |columns: &[usize]| {
            columns.get(columns.partition_point(|&other| other < column)).copied()
        };
        let Some(start) = rows().filter_map(from).min() else { return first..first };
        let mut end = start + 1;
        while rows().any(|columns| columns.binary_search(&end).is_ok()) {
            end += 1;
        }
        (start * width).max(first)..end * width
    }

    /// Calls `hide` with the runs of keys among these that one query may not see.
    pub(super) fn hidden(
        &self,
        head: usize,
        query: usize,
        keys: Range<usize>,
        mut hide: impl FnMut(Range<usize>),
    ) {
        let width = self.size[1];
        let columns = self.row(head, query / self.size[0]);
        let mut at = keys.start;
        for &column in &columns[columns.partition_point(|&c| (c + 1) * width <= keys.start)..] {
            let start = column * width;
            if start >= keys.end {
                break;
            }
            if start > at {
                hide(at..start);
            }
            at = at.max(start + width);
        }
        if at < keys.end {
            hide(at..keys.end);
        }
    }
}
