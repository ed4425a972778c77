//! Elements written over those of a strided block.

use super::layout::{Layout, View};
use super::parallel::{PIECE, for_each};
use super::runs::Runs;
use crate::element::{Element, Float};

/// Writes the elements of `from` to the places of `layout`, which has the same sizes. No two of those
/// places are one.
pub(crate) fn assign<E: Element>(from: View<E>, to: &mut [E], layout: &Layout) {
    debug_assert!(layout.count() == 0 || layout.is_injective());
    let runs = Runs::new([&from.layout, layout]);
    let steps @ [from_step, to_step] = runs.steps();
    runs.for_each(0, layout.count(), |[from_at, to_at], len| {
        if steps == [1, 1] {
            to[to_at..to_at + len].copy_from_slice(&from.data[from_at..from_at + len]);
        } else {
            for i in 0..len {
                to[to_at + i * to_step] = from.data[from_at + i * from_step];
            }
        }
    });
}

/// Adds the elements of `from` to those in the places of `layout`, which has the same sizes, in row-major
/// order where places repeat.
pub(crate) fn accumulate<E: Float>(from: View<E>, to: &mut [E], layout: &Layout) {
    struct Places<E>(*mut E);
    // SAFETY: each piece of work has places of its own; elements are `Send`.
    unsafe impl<E: Float> Sync for Places<E> {}

    assert!(layout.dims == from.layout.dims && layout.extent() <= to.len());
    let runs = Runs::new([&from.layout, layout]);
    let (steps @ [from_step, to_step], count) = (runs.steps(), layout.count());
    let piece = if layout.is_injective() { PIECE } else { count.max(1) };
    let places = Places(to.as_mut_ptr());
    for_each(count.div_ceil(piece), count, |i| {
        let places = &places;
        let first = i * piece;
        runs.for_each(first, piece.min(count - first), |[from_at, to_at], len| {
            let add = |sum: &mut E, x: &E| *sum = E::narrow(sum.wide() + x.wide());
            // SAFETY, for both: the layout lies within `to`, which nothing else refers to. Where no two
            // places of it are one, no other piece has these; else there is one piece.
            if steps == [1, 1] {
                // SAFETY: above.
                let to = unsafe { std::slice::from_raw_parts_mut(places.0.add(to_at), len) };
                let from = &from.data[from_at..from_at + len];
                to.iter_mut().zip(from).for_each(|(to, x)| add(to, x));
            } else {
                for i in 0..len {
                    // SAFETY: above.
                    let to = unsafe { &mut *places.0.add(to_at + i * to_step) };
                    add(to, &from.data[from_at + i * from_step]);
                }
            }
        });
    });
}

/// The elements in the places of `layout`, in row-major order; from the second time on, that of a place
/// is 0.
pub(crate) fn take_each_once<E: Element>(from: &mut [E], layout: &Layout) -> Vec<E> {
    let runs = Runs::new([layout]);
    let [step] = runs.steps();
    let mut taken = Vec::with_capacity(layout.count());
    runs.for_each(0, layout.count(), |[at], len| {
        taken.extend((0..len).map(|i| std::mem::take(&mut from[at + i * step])));
    });
    taken
}

/// Moves the elements `from..from + len` of each line of `line` elements to the line's start.
pub(crate) fn move_to_front<E: Element>(data: &mut [E], line: usize, from: usize, len: usize) {
    for line in data.chunks_exact_mut(line.max(1)) {
        line.copy_within(from..from + len, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, slow_pack};

    #[test]
    fn every_element_arrives_whatever_the_strides_are() {
        let mut rng = Rng::new(60);
        for dims in [&[][..], &[5], &[3, 4], &[2, 3, 4], &[0, 3], &[1, 1, 2]] {
            let block = rng.block::<f32>(dims);
            for (from, to) in (0..9).map(|i| (i / 3, i % 3)) {
                let mut written = rng.block::<f32>(dims).scattered(to);
                let between = |data: &[f32]| data.iter().filter(|&&x| x == 0.0).count();
                let before = between(&written.data);
                assign(block.scattered(from).view(), &mut written.data, &written.layout);
                assert_eq!(slow_pack(written.view()), block.data);
                assert_eq!(between(&written.data), before, "gaps are left alone");
            }
        }
    }

    #[test]
    fn elements_add_up_in_the_places_of_a_layout_and_are_taken_from_each_once() {
        let from = View { data: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], layout: Layout::packed(&[2, 3]) };
        let mut sums = [10.0; 3];
        let repeated = Layout::packed(&[3]).broadcast(&[2, 3], &[1]);
        accumulate(from, &mut sums, &repeated);
        assert_eq!(sums, [15.0, 17.0, 19.0]);
        assert_eq!(take_each_once(&mut sums, &repeated), [15.0, 17.0, 19.0, 0.0, 0.0, 0.0]);
        let mut sums = [0.0; 6];
        accumulate(from, &mut sums, &Layout::packed(&[3, 2]).transposed());
        assert_eq!(sums, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }

    #[test]
    fn the_end_of_each_line_moves_to_its_front() {
        let mut data = [1, 2, 3, 4, 5, 6, 7, 8];
        move_to_front(&mut data, 4, 1, 3);
        assert_eq!(data, [2, 3, 4, 4, 6, 7, 8, 8]);
        move_to_front::<u8>(&mut [], 0, 0, 0);
    }
}
