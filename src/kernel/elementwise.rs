//! One output element from one, two or three input elements in the same place.
//!
//! The output is packed and cut into chunks of a fixed size. Within a chunk the inputs are visited
//! run by run ([`Runs`]); a run whose strides are 1 or 0 is a loop over slices that the compiler
//! vectorizes, any other run steps by its strides. Every element is computed by the same expression
//! either way, so strided and packed inputs give the same bits.

use super::layout::View;
use super::output::written_in_chunks;
use super::parallel::{PIECE, for_each_chunk};
use super::runs::Runs;
use crate::element::Element;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// A copy in row-major order.
pub(crate) fn pack<E: Element>(view: View<E>) -> Vec<E> {
    match view.as_slice() {
        Some(packed) => packed.to_vec(),
        None => map(view, |x| x),
    }
}

/// The elements in row-major order, copied unless they lie so.
pub(super) fn packed<E: Element>(view: View<'_, E>) -> Cow<'_, [E]> {
    view.as_slice().map_or_else(|| Cow::Owned(pack(view)), Cow::Borrowed)
}

/// `f` of every element.
pub(crate) fn map<A: Element, B: Element>(view: View<A>, f: impl Fn(A) -> B + Sync) -> Vec<B> {
    let count = view.layout.count();
    let runs = Runs::new([&view.layout]);
    let write =
        |i, chunk: &mut [MaybeUninit<B>]| _ = map_part(view.data, &runs, i * PIECE, &f, chunk);
    // SAFETY: `map_part` writes all of a chunk.
    unsafe { written_in_chunks(count, PIECE, count, write) }
}

/// Writes the elements from the row-major position `first` on to `out`, as many as it holds, and gives
/// them back.
pub(super) fn pack_part<'a, E: Element>(
    data: &[E],
    runs: &Runs<1>,
    first: usize,
    out: &'a mut [MaybeUninit<E>],
) -> &'a mut [E] {
    map_part(data, runs, first, &|x| x, out)
}

/// As [`pack_part`], with `f` of every element.
fn map_part<'a, A: Element, B: Element>(
    data: &[A],
    runs: &Runs<1>,
    first: usize,
    f: &impl Fn(A) -> B,
    out: &'a mut [MaybeUninit<B>],
) -> &'a mut [B] {
    let [step] = runs.steps();
    let mut rest = &mut *out;
    runs.for_each(first, rest.len(), |[at], len| {
        let (part, others) = std::mem::take(&mut rest).split_at_mut(len);
        rest = others;
        match step {
            0 => part.fill(MaybeUninit::new(f(data[at]))),
            1 => {
                for (out, &a) in part.iter_mut().zip(&data[at..at + len]) {
                    out.write(f(a));
                }
            }
            _ => {
                for (i, out) in part.iter_mut().enumerate() {
                    out.write(f(data[at + i * step]));
                }
            }
        }
    });
    assert!(rest.is_empty());
    // SAFETY: each run wrote all of its part, and nothing is left.
    unsafe { out.assume_init_mut() }
}

/// `f` of every pair of elements. The views must have equal sizes.
pub(crate) fn zip<A: Element, B: Element, C: Element>(
    a: View<A>,
    b: View<B>,
    f: impl Fn(A, B) -> C + Sync,
) -> Vec<C> {
    let count = a.layout.count();
    let runs = Runs::new([&a.layout, &b.layout]);
    let steps @ [a_step, b_step] = runs.steps();
    let write = |i, chunk: &mut [MaybeUninit<C>]| {
        let mut done = 0;
        runs.for_each(i * PIECE, chunk.len(), |[a_at, b_at], len| {
            let out = &mut chunk[done..done + len];
            done += len;
            match steps {
                [1, 1] => {
                    let pairs = a.data[a_at..a_at + len].iter().zip(&b.data[b_at..b_at + len]);
                    for (out, (&a, &b)) in out.iter_mut().zip(pairs) {
                        out.write(f(a, b));
                    }
                }
                [1, 0] => {
                    let b = b.data[b_at];
                    for (out, &a) in out.iter_mut().zip(&a.data[a_at..a_at + len]) {
                        out.write(f(a, b));
                    }
                }
                [0, 1] => {
                    let a = a.data[a_at];
                    for (out, &b) in out.iter_mut().zip(&b.data[b_at..b_at + len]) {
                        out.write(f(a, b));
                    }
                }
                _ => {
                    for (i, out) in out.iter_mut().enumerate() {
                        out.write(f(a.data[a_at + i * a_step], b.data[b_at + i * b_step]));
                    }
                }
            }
        });
    };
    // SAFETY: the runs that start at a chunk's first element have as many elements as it.
    unsafe { written_in_chunks(count, PIECE, count, write) }
}

/// Puts `f` of every element in its place.
pub(crate) fn map_in_place<E: Element>(elements: &mut [E], f: impl Fn(E) -> E + Sync) {
    let work = elements.len();
    for_each_chunk(elements, PIECE, work, |_, chunk| {
        chunk.iter_mut().for_each(|element| *element = f(*element));
    });
}

/// Puts `f` of every element and its partner in the element's place. `elements` has as many as
/// `partners`, in row-major order.
pub(crate) fn zip_in_place<A: Element, B: Element>(
    elements: &mut [A],
    partners: View<B>,
    f: impl Fn(A, B) -> A + Sync,
) {
    debug_assert_eq!(elements.len(), partners.layout.count());
    let runs = Runs::new([&partners.layout]);
    let [step] = runs.steps();
    let work = elements.len();
    for_each_chunk(elements, PIECE, work, |i, chunk| {
        let mut done = 0;
        runs.for_each(i * PIECE, chunk.len(), |[at], len| {
            let part = &mut chunk[done..done + len];
            done += len;
            match step {
                0 => {
                    let partner = partners.data[at];
                    part.iter_mut().for_each(|element| *element = f(*element, partner));
                }
                1 => {
                    for (element, &partner) in part.iter_mut().zip(&partners.data[at..at + len]) {
                        *element = f(*element, partner);
                    }
                }
                _ => {
                    for (i, element) in part.iter_mut().enumerate() {
                        *element = f(*element, partners.data[at + i * step]);
                    }
                }
            }
        });
    });
}

/// `f` of every three elements. The views must have equal sizes.
pub(crate) fn zip3<A: Element, B: Element, C: Element, D: Element>(
    a: View<A>,
    b: View<B>,
    c: View<C>,
    f: impl Fn(A, B, C) -> D + Sync,
) -> Vec<D> {
    let count = a.layout.count();
    let runs = Runs::new([&a.layout, &b.layout, &c.layout]);
    let steps = runs.steps();
    let write = |i, chunk: &mut [MaybeUninit<D>]| {
        let mut done = 0;
        runs.for_each(i * PIECE, chunk.len(), |at, len| {
            let out = &mut chunk[done..done + len];
            done += len;
            for (i, out) in out.iter_mut().enumerate() {
                let [a_at, b_at, c_at] = [0, 1, 2].map(|n| at[n] + i * steps[n]);
                out.write(f(a.data[a_at], b.data[b_at], c.data[c_at]));
            }
        });
    };
    // SAFETY: the runs that start at a chunk's first element have as many elements as it.
    unsafe { written_in_chunks(count, PIECE, count, write) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::Layout;
    use crate::kernel::testing::{Rng, in_pools, scattered, slow_pack};

    #[test]
    fn strided_and_packed_inputs_give_the_same_elements() {
        let mut rng = Rng::new(1);
        for dims in [&[][..], &[7], &[3, 5], &[2, 3, 4], &[0, 3], &[1, 1], &[2, 1, 3, 2, 2, 3]] {
            let a = rng.block::<f32>(dims);
            let packed = a.pack();
            for order in 0..3 {
                let (data, layout) = scattered(&packed, dims, order);
                let view = View { data: &data, layout };
                assert_eq!(pack(view), packed, "{dims:?} {layout:?}");
                let twice: Vec<f32> = packed.iter().map(|x| x * 2.0).collect();
                assert_eq!(map(view, |x| x * 2.0), twice);
                assert_eq!(zip(view, a.view(), |a, b| a + b), twice);
                let mut in_place = packed.clone();
                zip_in_place(&mut in_place, view, |a, b| a + b);
                assert_eq!(in_place, twice);
                map_in_place(&mut in_place, |x| x / 2.0);
                assert_eq!(in_place, packed);
                let doubled = View { data: &twice, layout: a.layout };
                let expected: Vec<f32> = packed.iter().map(|x| x * (x * 2.0) - x).collect();
                assert_eq!(zip3(view, doubled, view, |a, b, c| a * b - c), expected);
            }
        }
    }

    #[test]
    fn a_row_is_repeated_over_rows_by_stride_0() {
        let row = [1, 2, 3];
        let layout = Layout::packed(&[3]).broadcast(&[2, 3], &[1]);
        let view = View { data: &row, layout };
        assert_eq!(pack(view), [1, 2, 3, 1, 2, 3]);
        assert_eq!(zip(view, view, |a: i32, b: i32| a * b), [1, 4, 9, 1, 4, 9]);
        let layout = Layout::packed(&[3]).broadcast(&[3, 2], &[0]);
        let column = View { data: &row, layout };
        assert_eq!(pack(column), [1, 1, 2, 2, 3, 3]);
        let ones = Layout::packed(&[3, 2]);
        let other = View { data: &[10, 20, 30, 40, 50, 60], layout: ones };
        assert_eq!(zip(column, other, |a, b| a + b), [11, 21, 32, 42, 53, 63]);
        assert_eq!(zip(other, column, |a, b| a + b), [11, 21, 32, 42, 53, 63]);
        let mut in_place = other.data.to_vec();
        zip_in_place(&mut in_place, column, |a, b| a + b);
        assert_eq!(in_place, [11, 21, 32, 42, 53, 63]);
    }

    #[test]
    fn long_inputs_do_not_depend_on_the_number_of_threads() {
        let block = Rng::new(2).block::<f64>(&[129, 3, 517]);
        let strided =
            View { data: block.view().data, layout: block.view().layout.permuted(&[2, 0, 1]) };
        in_pools(|| map(strided, |x| (x * 1.7).to_bits() as i64));
        assert_eq!(pack(strided), slow_pack(strided));
    }
}
