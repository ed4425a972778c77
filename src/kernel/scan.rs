//! Lines in, lines out: running sums and orders along an axis.
//!
//! Lines are processed packed ([`Lines`]) and put back in row-major order of the input's axes.

use super::elementwise::pack;
use super::layout::{Dims, Layout, View};
use super::lines::Lines;
use super::output::written_in_chunks;
use super::parallel::for_each_chunk_pair;
use super::reduce::is_nan;
use crate::element::{Element, Float};
use num_traits::Zero;
use std::cmp::Ordering;
use std::mem::MaybeUninit;

/// Which element comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

impl Order {
    /// NaN comes last in either order; equal elements (0 and −0 are) stay as they were.
    fn compare<E: Element>(self, a: &E, b: &E) -> Ordering {
        let numbers = match self {
            Order::Ascending => a.partial_cmp(b),
            Order::Descending => b.partial_cmp(a),
        };
        numbers.unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
    }
}

/// The sums of each element and those before it. Row-major, sizes as in `view`.
pub(crate) fn cumsum<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    running_sums(view, at, false)
}

/// The sums of each element and those behind it. Row-major, sizes as in `view`.
pub(crate) fn cumsum_backward<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    running_sums(view, at, true)
}

fn running_sums<E: Float>(view: View<E>, at: usize, reversed: bool) -> Vec<E> {
    let lines = Lines::new(view, at);
    let (n, group, count) = (lines.len, lines.group(), lines.count * lines.len);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        for line in lines.load(i * group, out).chunks_exact_mut(n) {
            let mut sum = E::Wide::zero();
            let add = |x: &mut E| {
                sum += x.wide();
                *x = E::narrow(sum);
            };
            if reversed {
                line.iter_mut().rev().for_each(add);
            } else {
                line.iter_mut().for_each(add);
            }
        }
    };
    // SAFETY: a chunk is whole lines, and `load` writes all of them.
    let out = unsafe { written_in_chunks(count, group * n, count * 8, write) };
    in_place(out, view.layout.with_last(at).dims, at)
}

/// Each line in order: the values, and where they were. Row-major, sizes as in `view`.
pub(crate) fn sort<E: Element>(view: View<E>, at: usize, order: Order) -> (Vec<E>, Vec<usize>) {
    first_of_sorted(view, at, order, view.layout.dims[at])
}

/// The `k` greatest of each line, greatest first, and where they were; among equals the one with
/// the lower index. NaN comes after every number. `k` must not exceed the size of axis `at`.
/// Row-major, `k` in the place of that size.
pub(crate) fn top_k<E: Element>(view: View<E>, at: usize, k: usize) -> (Vec<E>, Vec<usize>) {
    first_of_sorted(view, at, Order::Descending, k)
}

fn first_of_sorted<E: Element>(
    view: View<E>,
    at: usize,
    order: Order,
    k: usize,
) -> (Vec<E>, Vec<usize>) {
    let lines = Lines::new(view, at);
    let (n, count) = (lines.len, lines.count);
    debug_assert!(k <= n);
    let (mut values, mut indices) = (vec![E::default(); count * k], vec![0; count * k]);
    let group = lines.group();
    let work = count * n * 16;
    if k > 0 {
        let chunks = ((&mut values[..], group * k), (&mut indices[..], group * k));
        for_each_chunk_pair(chunks.0, chunks.1, work, |i, values, indices| {
            let mut places: Vec<usize> = Vec::with_capacity(n);
            let count = values.len() / k;
            let mut outs = values.chunks_exact_mut(k).zip(indices.chunks_exact_mut(k));
            lines.for_each(i * group, count, |_, line| {
                let Some((values, indices)) = outs.next() else { unreachable!("one for a line") };
                places.clear();
                places.extend(0..n);
                // The index as the last criterion makes the order total, so an unstable
                // selection gives what a stable sort would.
                let compare =
                    |&a: &usize, &b: &usize| order.compare(&line[a], &line[b]).then(a.cmp(&b));
                if k < n {
                    places.select_nth_unstable_by(k, compare);
                }
                places[..k].sort_unstable_by(compare);
                indices.copy_from_slice(&places[..k]);
                values.iter_mut().zip(&places).for_each(|(value, &place)| *value = line[place]);
            });
        });
    }
    let dims = view.layout.with_last(at).dims.replaced(view.layout.rank() - 1, k);
    (in_place(values, dims, at), in_place(indices, dims, at))
}

/// Moves the last axis of a packed block of the sizes `dims` to `at`.
pub(super) fn in_place<E: Element>(data: Vec<E>, dims: Dims, at: usize) -> Vec<E> {
    let last = dims.len() - 1;
    if at == last {
        return data;
    }
    let layout = Layout::packed(&dims);
    let layout = Layout {
        dims: layout.dims.removed(last).inserted(at, layout.dims[last]),
        strides: layout.strides.removed(last).inserted(at, layout.strides[last]),
        offset: 0,
    };
    pack(View { data: &data, layout })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, in_pools};

    fn row<E>(data: &[E]) -> View<'_, E> {
        View { data, layout: Layout::packed(&[data.len()]) }
    }

    #[test]
    fn running_sums_go_along_the_axis() {
        let view = View { data: &[1f64, 2., 3., 4., 5., 6.], layout: Layout::packed(&[2, 3]) };
        assert_eq!(cumsum(view, 1), [1., 3., 6., 4., 9., 15.]);
        assert_eq!(cumsum(view, 0), [1., 2., 3., 5., 7., 9.]);
    }

    #[test]
    fn sorting_is_stable_and_puts_nan_last() {
        let x = [2.0, f32::NAN, 1.0, 2.0, f32::NEG_INFINITY];
        assert_eq!(sort(row(&x), 0, Order::Ascending).1, [4, 2, 0, 3, 1]);
        assert_eq!(sort(row(&x), 0, Order::Descending).1, [0, 3, 2, 4, 1]);
        assert_eq!(top_k(row(&x), 0, 2), (vec![2.0, 2.0], vec![0, 3]));
        assert_eq!(sort(row(&[3u8, 1, 2]), 0, Order::Ascending).0, [1, 2, 3]);
    }

    #[test]
    fn top_k_is_the_start_of_the_sorted_line_on_every_axis() {
        let mut block = Rng::new(5).block::<f32>(&[4, 30, 3]);
        block.data.iter_mut().for_each(|x| *x = (*x * 4.0).round());
        for at in 0..3 {
            let n = block.layout.dims[at];
            let sorted = in_pools(|| sort(block.view(), at, Order::Descending));
            for k in [0, 1, n / 2, n] {
                let layout = Layout::packed(&block.layout.dims).sliced(at, 0, k);
                let start = pack(View { data: &sorted.0, layout });
                let places = pack(View { data: &sorted.1, layout });
                assert_eq!(top_k(block.scattered(k % 3).view(), at, k), (start, places));
            }
        }
    }
}
