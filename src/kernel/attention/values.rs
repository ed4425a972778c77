//! The product of a block's weights with its values.
//!
//! A tile has queries as its rows, read from the scores, and a panel of V as its columns. Where V
//! holds NaN or infinities, the careful product steps over the keys of weight 0.

use super::block::Attend;
use super::operand::Operand;
use super::running::Group;
use crate::element::Float;
use crate::kernel::simd::Vector;
use crate::kernel::tile::{Tile, columns};
use num_traits::{Float as _, Zero};
use std::ops::Range;

impl<E: Float> Attend<'_, E> {
    /// Adds weights · V of a block of keys to a group's sums. Fetches the lines of the output with
    /// the `last` of them.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`. The weights have a row of the group's width for
    /// each of the `keys` keys, and `v` a row for each.
    #[inline(always)]
    pub(super) unsafe fn add_values<V: Vector<Scalar = E::Wide>>(
        &self,
        group: &mut Group<E>,
        weights: &[E::Wide],
        v: Operand<E::Wide>,
        keys: usize,
        last: bool,
    ) {
        let (step, queries) = (columns::<V>(), group.queries.len());
        let row = self.dv.next_multiple_of(step);
        for column in (0..self.dv).step_by(step) {
            for query in (0..queries).step_by(V::ROWS) {
                let rows = V::ROWS.min(queries - query);
                if last {
                    for query in group.queries.start + query..group.queries.start + query + rows {
                        let out = self.out.wrapping_add(query * self.out_row + column);
                        // SAFETY: the instruction set is the caller's.
                        unsafe { V::prefetch(out.cast()) }
                    }
                }
                let panels = query / step * step..(query + rows).next_multiple_of(step);
                let tile = Tile {
                    k: group.mask.bound(panels, keys),
                    a: weights[query..].as_ptr(),
                    a_row: 1,
                    a_k: group.width,
                    b: v.at.wrapping_add(column / step * v.column),
                    b_k: v.row,
                    sums: group.sums[query * row + column..].as_mut_ptr(),
                    sums_row: row,
                    add: !group.fresh,
                    output: None,
                };
                // SAFETY: the instruction set is the caller's. The weights have `width` places for
                // each key; V, in place or packed, `step` columns for each key; the sums have whole
                // tiles of columns, and were written by the group's first block.
                unsafe { tile.multiply::<V>(rows) }
            }
        }
    }

    /// As [`add_values`](Self::add_values), query by query over the runs of keys whose weight is
    /// not 0.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn add_visible_values<V: Vector<Scalar = E::Wide>>(
        &self,
        group: &mut Group<E>,
        weights: &[E::Wide],
        v: Operand<E::Wide>,
        keys: usize,
    ) {
        let step = columns::<V>();
        let row = self.dv.next_multiple_of(step);
        if group.fresh {
            group.sums.fill(E::Wide::zero());
        }
        for query in 0..group.queries.len() {
            let visible = |key: usize| weights[key * group.width + query] != E::Wide::zero();
            let mut first = 0;
            while first < keys {
                let len = (first..keys).take_while(|&key| visible(key)).count();
                for column in (0..self.dv).step_by(step) {
                    let run = Tile {
                        k: len,
                        a: weights[first * group.width + query..].as_ptr(),
                        a_row: 1,
                        a_k: group.width,
                        b: v.at.wrapping_add(column / step * v.column + first * v.row),
                        b_k: v.row,
                        sums: group.sums[query * row + column..].as_mut_ptr(),
                        sums_row: row,
                        add: true,
                        output: None,
                    };
                    // SAFETY: as for `add_values`.
                    unsafe { run.multiply::<V>(1) }
                }
                first += len + 1;
            }
        }
    }

    /// Whether a block of V holds only finite numbers.
    pub(super) fn is_finite(&self, keys: Range<usize>) -> bool {
        keys.into_iter().all(|key| {
            let row = self.v.from(key, 0);
            (0..self.dv).all(|c| row.data[row.at + c * row.column].wide().is_finite())
        })
    }
}
