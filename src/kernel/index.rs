//! Copies of chosen entries: lookups along an axis, blocks put one after the other.
//!
//! Both copy whole runs of the axes after the chosen one, so an embedding row is one copy.

use super::elementwise::packed;
use super::layout::{Layout, View, count};
use super::output::written_in_chunks;
use super::parallel::lines_in_piece;
use super::runs::Runs;
use crate::element::Element;
use std::mem::MaybeUninit;

/// The entries `indices` of axis `at`, in that order. Row-major, with `indices.len()` in the place
/// of that axis's size. The indices must be below it.
pub(crate) fn gather<E: Element>(view: View<E>, at: usize, indices: &[usize]) -> Vec<E> {
    let (outer, inner) = outer_and_inner(&view.layout, at);
    let each = inner.count();
    let len = count(&[outer.count(), indices.len(), each]);
    if len == 0 {
        return Vec::new();
    }
    let (outer, inner) = (Runs::new([&outer]), Runs::new([&inner]));
    let [step] = inner.steps();
    let stride = view.layout.strides[at];
    let lines = lines_in_piece(each);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        for (line, out) in out.chunks_exact_mut(each).enumerate() {
            let line = i * lines + line;
            let entry = indices[line % indices.len()] * stride;
            let mut done = 0;
            outer.for_each(line / indices.len(), 1, |[base], _| {
                inner.for_each(0, each, |[from], len| {
                    let from = base + entry + from;
                    let to = &mut out[done..done + len];
                    done += len;
                    if step == 1 {
                        to.write_copy_of_slice(&view.data[from..from + len]);
                    } else {
                        for (i, to) in to.iter_mut().enumerate() {
                            to.write(view.data[from + i * step]);
                        }
                    }
                });
            });
        }
    };
    // SAFETY: a chunk is whole lines, and the runs of a line have its `each` elements.
    unsafe { written_in_chunks(len, lines * each, len, write) }
}

/// The axes before `at` with the offset, and those after it without.
fn outer_and_inner(layout: &Layout, at: usize) -> (Layout, Layout) {
    let (mut outer, mut inner) = (*layout, Layout { offset: 0, ..*layout });
    for axis in (at..layout.rank()).rev() {
        outer = Layout {
            dims: outer.dims.removed(axis),
            strides: outer.strides.removed(axis),
            ..outer
        };
    }
    for _ in 0..=at {
        inner = Layout { dims: inner.dims.removed(0), strides: inner.strides.removed(0), ..inner };
    }
    (outer, inner)
}

/// The blocks one after the other along axis `at`. Row-major. The blocks must agree in the sizes of
/// the other axes; no block gives no elements.
pub(crate) fn concat<E: Element>(parts: &[View<E>], at: usize) -> Vec<E> {
    let Some(first) = parts.first() else {
        return Vec::new();
    };
    let others = |part: &View<E>| part.layout.dims.removed(at);
    assert!(parts.iter().all(|part| others(part) == others(first)));
    let outer: usize = first.layout.dims[..at].iter().product();
    let packed: Vec<_> = parts.iter().map(|part| packed(*part)).collect();
    let total: usize = packed.iter().map(|part| part.len()).sum();
    if total == 0 {
        return Vec::new();
    }
    let each = total / outer;
    let lines = lines_in_piece(each);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        for (line, mut rest) in out.chunks_exact_mut(each).enumerate() {
            for part in &packed {
                let len = part.len() / outer;
                let (to, others) = rest.split_at_mut(len);
                to.write_copy_of_slice(&part[(i * lines + line) * len..][..len]);
                rest = others;
            }
        }
    };
    // SAFETY: a chunk is whole lines, and the parts of a line, which agree in the other sizes, have its
    // `each` elements together.
    unsafe { written_in_chunks(total, lines * each, total, write) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, in_pools};

    #[test]
    fn lookups_take_whole_rows_in_the_order_asked_for() {
        let table = View { data: &[1, 2, 3, 4, 5, 6], layout: Layout::packed(&[3, 2]) };
        assert_eq!(gather(table, 0, &[2, 0, 2]), [5, 6, 1, 2, 5, 6]);
        assert_eq!(gather(table, 1, &[1]), [2, 4, 6]);
        assert_eq!(gather(table, 0, &[]), [0; 0]);
    }

    #[test]
    fn lookups_do_not_depend_on_strides_or_threads() {
        let dims = [3, 5, 4, 11];
        let block = Rng::new(9).block::<f32>(&dims);
        let mut rng = Rng::new(10);
        for at in 0..4 {
            let indices: Vec<usize> = (0..200).map(|_| rng.below(dims[at])).collect();
            let result = in_pools(|| gather(block.view(), at, &indices));
            let inner: usize = dims[at + 1..].iter().product();
            for (i, x) in result.iter().enumerate() {
                let (outer, j, k) = (i / inner / 200, i / inner % 200, i % inner);
                assert_eq!(*x, block.data[(outer * dims[at] + indices[j]) * inner + k]);
            }
            for kind in 0..3 {
                assert_eq!(gather(block.scattered(kind).view(), at, &indices), result);
            }
        }
    }

    #[test]
    fn blocks_follow_one_another_along_any_axis() {
        let a = View { data: &[1, 2, 3, 4], layout: Layout::packed(&[2, 2]) };
        let b = View { data: &[5, 6], layout: Layout::packed(&[2, 1]) };
        let c = View { data: &[7, 8], layout: Layout::packed(&[1, 2]) };
        let none = View { data: &[], layout: Layout::packed(&[2, 0]) };
        assert_eq!(concat(&[a, none, b], 1), [1, 2, 5, 3, 4, 6]);
        assert_eq!(concat(&[a, c], 0), [1, 2, 3, 4, 7, 8]);
        assert_eq!(
            concat(&[View { layout: a.layout.transposed(), ..a }, c], 0),
            [1, 3, 2, 4, 7, 8]
        );
        assert_eq!(concat::<i32>(&[none, none], 1), [0; 0]);
        assert_eq!(concat::<i32>(&[], 0), [0; 0]);
    }
}
