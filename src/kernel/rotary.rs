//! Rotary position embedding: the first features of every head turn in pairs, each pair by an angle of
//! its own.
//!
//! A row is copied from where it lies to where it belongs, and turned there: pairs (2i, 2i + 1), or
//! (i, i + pairs). Every product and sum is rounded by itself, so all instruction sets give the same
//! bits.

use super::elementwise::pack;
use super::layout::{Layout, View};
use super::output::written_in_chunks;
use super::parallel::lines_in_piece;
use super::runs::Runs;
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::Float;
use std::mem::MaybeUninit;

/// Operations for each element, roughly.
const COST: usize = 4;

/// Which features make a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pairs {
    /// 2i and 2i + 1.
    Adjacent,
    /// i and i + half of the rotated ones.
    SplitHalf,
}

/// `x` over (batch, heads, positions, features), of which the first 2 · pairs are turned by the angles
/// whose cosines and sines are `turns`: two blocks of one layout over (batch, heads, positions, pairs),
/// the pairs of a position neighbours. Row-major.
pub(crate) fn rotate<E: Float>(x: View<E>, turns: [&[E]; 2], at: &Layout, pairs: Pairs) -> Vec<E> {
    let [width, count] = [x.layout.dims[3], at.dims[3]];
    assert!(2 * count <= width && at.dims[..3] == x.layout.dims[..3]);
    assert!(at.strides[3] == 1 || count <= 1);
    if count == 0 {
        return pack(x);
    }
    let rows = Runs::new([&without_last(&x.layout), &without_last(at)]);
    let (isa, step) = (Isa::best(), x.layout.strides[3]);
    let group = lines_in_piece(width);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        let mut rest = &mut *out;
        rows.for_each(i * group, rest.len() / width, |[from, turn], count_of_rows| {
            let [row_step, turn_step] = rows.steps();
            for row in 0..count_of_rows {
                let (to, others) = std::mem::take(&mut rest).split_at_mut(width);
                rest = others;
                let to = copied(x.data, from + row * row_step, step, to);
                let [cos, sin] = turns.map(|turns| &turns[turn + row * turn_step..][..count]);
                E::Wide::vectorized(isa, Turn { row: to, cos, sin, pairs });
            }
        });
    };
    // SAFETY: a chunk is whole rows, and `copied` writes all of a row.
    unsafe { written_in_chunks(x.layout.count(), group * width, x.layout.count() * COST, write) }
}

/// Where the rows start.
fn without_last(layout: &Layout) -> Layout {
    let last = layout.rank() - 1;
    Layout { dims: layout.dims.removed(last), strides: layout.strides.removed(last), ..*layout }
}

/// The elements at `from`, `from + step`, …, written to `to`.
fn copied<'a, E: Float>(
    data: &[E],
    from: usize,
    step: usize,
    to: &'a mut [MaybeUninit<E>],
) -> &'a mut [E] {
    if step == 1 {
        return to.write_copy_of_slice(&data[from..from + to.len()]);
    }
    for (i, to) in to.iter_mut().enumerate() {
        to.write(data[from + i * step]);
    }
    // SAFETY: the loop wrote every element.
    unsafe { to.assume_init_mut() }
}

/// A row to be turned in its place. Its loops are compiled for each instruction set.
struct Turn<'a, E> {
    row: &'a mut [E],
    cos: &'a [E],
    sin: &'a [E],
    pairs: Pairs,
}

impl<E: Float> Kernel<E::Wide> for Turn<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let Turn { row, cos, sin, pairs } = self;
        let row = &mut row[..2 * cos.len()];
        let turns = cos.iter().zip(sin);
        match pairs {
            Pairs::Adjacent => {
                for (pair, (&cos, &sin)) in row.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                    *pair = turned(*pair, cos, sin).into();
                }
            }
            Pairs::SplitHalf => {
                let (first, second) = row.split_at_mut(cos.len());
                for ((a, b), (&cos, &sin)) in first.iter_mut().zip(second).zip(turns) {
                    (*a, *b) = turned([*a, *b], cos, sin);
                }
            }
        }
    }
}

/// (a, b) turned by an angle from a to b.
#[inline(always)]
fn turned<E: Float>([a, b]: [E; 2], cos: E, sin: E) -> (E, E) {
    let [a, b, cos, sin] = [a, b, cos, sin].map(E::wide);
    (E::narrow(a * cos - b * sin), E::narrow(b * cos + a * sin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

    /// The twin: each feature by its index.
    fn slow(
        x: &[f32],
        dims: [usize; 4],
        turns: [&[f32]; 2],
        at: &Layout,
        pairs: Pairs,
    ) -> Vec<f32> {
        let [_, heads, len, width] = dims;
        let n = at.dims[3];
        let turned = |(i, &own): (usize, &f32)| {
            let (row, feature) = (i / width, i % width);
            if feature >= 2 * n {
                return own;
            }
            let (pair, second) = match pairs {
                Pairs::Adjacent => (feature / 2, feature % 2 == 1),
                Pairs::SplitHalf => (feature % n, feature >= n),
            };
            let partner = match pairs {
                Pairs::Adjacent => feature ^ 1,
                Pairs::SplitHalf => (feature + n) % (2 * n),
            };
            let index = [row / len / heads, row / len % heads, row % len, pair];
            let place = index.iter().zip(at.strides.iter()).map(|(i, stride)| i * stride);
            let place = at.offset + place.sum::<usize>();
            let (cos, sin, other) = (turns[0][place], turns[1][place], x[row * width + partner]);
            if second { own * cos + other * sin } else { own * cos - other * sin }
        };
        x.iter().enumerate().map(turned).collect()
    }

    #[test]
    fn pairs_turn_for_any_strides_and_threads_and_the_rest_stays() {
        let mut rng = Rng::new(60);
        let all = [
            ([2, 3, 5, 8], 4),
            ([2, 3, 5, 8], 1),
            ([3, 3, 3, 3], 1),
            ([1, 1, 1, 2], 1),
            ([2, 1, 4, 7], 3),
            ([2, 2, 3, 6], 0),
            ([2, 0, 3, 6], 3),
            ([5, 4, 40, 66], 33),
        ];
        for (dims, n) in all {
            let x = rng.block::<f32>(&dims);
            let [batch, heads, len, _] = dims;
            for by_sample in [false, true] {
                let full = [batch, heads, len, n];
                let at = match by_sample {
                    true => Layout::packed(&[batch, len, n]).broadcast(&full, &[0, 2, 3]),
                    false => Layout::packed(&[len, n]).broadcast(&full, &[2, 3]),
                };
                let turns = [0, 1].map(|_| rng.values::<f32>(batch * len * n));
                let turns = turns.each_ref().map(Vec::as_slice);
                for pairs in [Pairs::Adjacent, Pairs::SplitHalf] {
                    let y = in_pools(|| bits(&rotate(x.view(), turns, &at, pairs)));
                    assert_eq!(y, bits(&slow(&x.data, dims, turns, &at, pairs)), "{dims:?} {n}");
                    for kind in 0..3 {
                        let other = x.scattered(kind);
                        assert_eq!(bits(&rotate(other.view(), turns, &at, pairs)), y);
                    }
                }
            }
        }
    }
}
