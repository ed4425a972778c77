//! Which numbers dropout keeps: a function of the seed and a number's place alone, so that any thread,
//! in any order, forward or backward, decides alike.

use super::elementwise::pack_part;
use super::layout::View;
use super::output::written_in_chunks;
use super::parallel::lines_in_piece;
use super::runs::Runs;
use crate::element::Float;
use std::mem::MaybeUninit;

/// Operations for each element, roughly.
const COST: usize = 8;

/// Each number is dropped with probability `p`, and what is kept is divided by 1 − p.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dropout {
    p: f64,
    seed: u64,
}

/// The numbers of one row.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    start: u64,
    /// Of 2³² numbers, so many are dropped.
    dropped: u64,
}

impl Dropout {
    /// `p` is between 0 and 1.
    pub(crate) fn new(p: f64, seed: u64) -> Self {
        assert!((0.0..=1.0).contains(&p));
        Dropout { p, seed }
    }

    /// What a kept number is multiplied by.
    pub(crate) fn factor(self) -> f64 {
        if self.p < 1.0 { 1.0 / (1.0 - self.p) } else { 0.0 }
    }

    /// The elements that are kept, scaled, and 0 for the others. The rows are those along the last axis.
    pub(crate) fn of<E: Float>(self, x: View<E>) -> Vec<E> {
        let (count, width) = (x.layout.count(), x.layout.dims.last().copied().unwrap_or(1));
        let (runs, group) = (Runs::new([&x.layout]), lines_in_piece(width));
        let factor = E::Wide::from_f64(self.factor());
        let write = |i, out: &mut [MaybeUninit<E>]| {
            let rows = pack_part(x.data, &runs, i * group * width, out);
            for (at, row) in rows.chunks_exact_mut(width).enumerate() {
                let kept = self.row(i * group + at);
                for (column, x) in row.iter_mut().enumerate() {
                    *x = if kept.keeps(column) {
                        E::narrow(x.wide() * factor)
                    } else {
                        E::default()
                    };
                }
            }
        };
        // SAFETY: `pack_part` writes all of a chunk.
        unsafe { written_in_chunks(count, group * width, count * COST, write) }
    }

    /// The numbers of a row.
    pub(crate) fn row(self, row: usize) -> Row {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "p is between 0 and 1"
        )]
        let dropped = (self.p * 2.0_f64.powi(32)).round() as u64;
        Row { start: mixed(self.seed ^ mixed(row as u64)), dropped }
    }
}

impl Row {
    /// Whether the number in this column is kept.
    #[inline(always)]
    pub(crate) fn keeps(self, column: usize) -> bool {
        mixed(self.start.wrapping_add(column as u64)) >> 32 >= self.dropped
    }
}

/// A bijection after which neighbours have nothing in common: the output function of `SplitMix64`.
#[inline(always)]
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

    #[test]
    fn strides_and_threads_drop_the_same_numbers() {
        let mut rng = Rng::new(80);
        for dims in [&[][..], &[0], &[7, 3], &[3, 0], &[61, 3, 97]] {
            let x = rng.block::<f32>(dims);
            let dropout = Dropout::new(0.3, 5);
            let expected = in_pools(|| bits(&dropout.of(x.view())));
            for kind in 0..3 {
                assert_eq!(bits(&dropout.of(x.scattered(kind).view())), expected);
            }
            let width = dims.last().copied().unwrap_or(1);
            for (i, (x, y)) in x.data.iter().zip(dropout.of(x.view())).enumerate() {
                let kept = dropout.row(i / width).keeps(i % width);
                assert_eq!(y, if kept { x * (1.0f32 / 0.7) } else { 0.0 });
            }
        }
    }

    #[test]
    fn the_share_that_is_kept_is_that_asked_for() {
        for p in [0.0, 0.1, 0.5, 0.9, 1.0] {
            let dropout = Dropout::new(p, 3);
            let kept = (0..1000).map(|row| {
                let row = dropout.row(row);
                (0..100).filter(|&column| row.keeps(column)).count()
            });
            let share = kept.sum::<usize>() as f64 / 1e5;
            assert!((share - (1.0 - p)).abs() < 0.01, "{p} {share}");
        }
    }

    #[test]
    fn rows_and_seeds_differ() {
        let kept = |seed, row| {
            let row = Dropout::new(0.5, seed).row(row);
            (0..64).fold(0_u64, |bits, column| bits << 1 | u64::from(row.keeps(column)))
        };
        let mut seen: Vec<u64> =
            (0..9).flat_map(|seed| (0..9).map(move |row| kept(seed, row))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 81);
        assert_eq!(kept(1, 2), kept(1, 2));
    }
}
