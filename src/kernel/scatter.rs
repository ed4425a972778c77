//! Elements put to numbered places, where they add up: the gradients of lookups and of orders.
//!
//! What meets in one place is added in the order in which it comes, by one thread: so the bits do not
//! depend on how many there are.

use super::elementwise::packed;
use super::layout::{Layout, View, count};
use super::lines::Lines;
use super::output::written_in_chunks;
use super::parallel::{for_each_chunk, lines_in_piece};
use super::scan::in_place;
use crate::element::Float;
use std::mem::MaybeUninit;

/// Lines of `n` zeros along axis `at`, to whose `places` the elements of `from` were added: one place for
/// each element, in row-major order. Row-major, `n` in the place of `from`'s size.
pub(crate) fn along<E: Float>(from: View<E>, at: usize, places: &[usize], n: usize) -> Vec<E> {
    let last = from.layout.rank() - 1;
    let dims = from.layout.with_last(at).dims.replaced(last, n);
    let count = count(&dims);
    if from.layout.dims[at] == 0 || count == 0 {
        return vec![E::default(); count];
    }
    let places = View { data: places, layout: Layout::packed(&from.layout.dims) };
    let (values, places) = (Lines::new(from, at), Lines::new(places, at));
    let group = lines_in_piece(n);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        out.fill(MaybeUninit::new(E::default()));
        // SAFETY: all of it was just written.
        let out = unsafe { out.assume_init_mut() };
        let (first, lines) = (i * group, out.len() / n);
        values.for_each(first, lines, |line, values| {
            places.for_each(first + line, 1, |_, places| {
                for (&value, &place) in values.iter().zip(places) {
                    let sum = &mut out[line * n + place];
                    *sum = E::narrow(sum.wide() + value.wide());
                }
            });
        });
    };
    // SAFETY: all of a chunk is filled.
    let out = unsafe { written_in_chunks(count, group * n, count, write) };
    in_place(out, dims, at)
}

/// `n` entries of zeros along axis `at`, to which those of `from` were added: entry i to that which
/// `indices[i]` says, all below `n`. Row-major, `n` in the place of `from`'s size.
pub(crate) fn entries<E: Float>(from: View<E>, at: usize, indices: &[usize], n: usize) -> Vec<E> {
    let dims = from.layout.dims;
    let each: usize = dims[at + 1..].iter().product();
    let outer: usize = dims[..at].iter().product();
    let mut out = vec![E::default(); count(&dims.replaced(at, n))];
    if out.is_empty() {
        return out;
    }
    debug_assert_eq!(indices.len(), dims[at]);
    let packed = packed(from);
    let meeting = Meeting::new(indices, n);
    let (lines, work) = (lines_in_piece(each), outer * indices.len() * each);
    for_each_chunk(&mut out, lines * each, work, |i, out| {
        for (line, sums) in out.chunks_exact_mut(each).enumerate() {
            let (block, entry) = ((i * lines + line) / n, (i * lines + line) % n);
            for &index in meeting.at(entry) {
                let from = &packed[(block * indices.len() + index) * each..][..each];
                for (sum, value) in sums.iter_mut().zip(from) {
                    *sum = E::narrow(sum.wide() + value.wide());
                }
            }
        }
    });
    out
}

/// Which indices name an entry, in ascending order.
struct Meeting {
    /// All of them, entry by entry.
    order: Vec<usize>,
    /// Where each entry's begin, and the last one's end.
    starts: Vec<usize>,
}

impl Meeting {
    fn new(indices: &[usize], n: usize) -> Self {
        let mut starts = vec![0; n + 1];
        indices.iter().for_each(|&entry| starts[entry + 1] += 1);
        for entry in 0..n {
            starts[entry + 1] += starts[entry];
        }
        let (mut next, mut order) = (starts.clone(), vec![0; indices.len()]);
        for (index, &entry) in indices.iter().enumerate() {
            order[next[entry]] = index;
            next[entry] += 1;
        }
        Meeting { order, starts }
    }

    fn at(&self, entry: usize) -> &[usize] {
        &self.order[self.starts[entry]..self.starts[entry + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

    #[test]
    fn entries_that_meet_add_up_in_their_order() {
        let mut rng = Rng::new(73);
        for (dims, at, n) in [
            (&[40, 3][..], 0, 7),
            (&[2, 50, 3], 1, 5),
            (&[2, 3, 6], 2, 4),
            (&[6], 0, 3),
            (&[0, 3], 0, 2),
            (&[3, 0], 0, 2),
            (&[500, 200], 0, 40),
        ] {
            let from = rng.block::<f32>(dims);
            let indices: Vec<_> = (0..dims[at]).map(|_| rng.below(n)).collect();
            let result = in_pools(|| bits(&entries(from.view(), at, &indices, n)));
            let (each, outer): (usize, usize) =
                (dims[at + 1..].iter().product(), dims[..at].iter().product());
            let mut expected = vec![0f32; outer * n * each];
            for (block, (i, entry)) in
                (0..outer).flat_map(|block| indices.iter().enumerate().map(move |i| (block, i)))
            {
                for k in 0..each {
                    expected[(block * n + entry) * each + k] +=
                        from.data[(block * dims[at] + i) * each + k];
                }
            }
            assert_eq!(result, bits(&expected), "{dims:?}");
            for kind in 0..3 {
                assert_eq!(bits(&entries(from.scattered(kind).view(), at, &indices, n)), result);
            }
        }
    }

    #[test]
    fn elements_go_to_their_places() {
        let from = View { data: &[1.0, 2.0, 3.0, 4.0], layout: Layout::packed(&[2, 2]) };
        assert_eq!(along(from, 1, &[2, 0, 1, 1], 3), [2.0, 0.0, 1.0, 0.0, 7.0, 0.0]);
        assert_eq!(along(from, 0, &[2, 0, 1, 1], 3), [0.0, 2.0, 3.0, 4.0, 1.0, 0.0]);
        let none = View { data: &[0f32; 0], layout: Layout::packed(&[2, 0]) };
        assert_eq!(along(none, 1, &[], 3), [0.0; 6]);
        assert_eq!(along(none, 0, &[], 3), [0.0; 0]);
    }
}
