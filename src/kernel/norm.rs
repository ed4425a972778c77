//! Layer norm: each row loses its mean and is divided by √(variance + ε). RMS norm: a row keeps its
//! mean and is divided by √(mean of its squares + ε).
//!
//! A row is the last `size` elements in row-major order, however many axes they span. It is read
//! three times, but from memory once: for the sum, for the sums of what is left of the mean and of the
//! squares around it (so rows far from 0 keep their digits), and to be written. RMS norm needs no sum.

use super::elementwise::pack_part;
use super::layout::View;
use super::output::{in_its_place, written_in_chunks};
use super::parallel::{for_each_chunk, lines_in_piece};
use super::runs::Runs;
use super::simd::elements::{load, load_first, store, store_first};
use super::simd::{Isa, Kernel, Lanes, Vector};
use super::sums::{mean, mean_of_squares, moments};
use crate::element::Float;
use num_traits::{Float as _, Zero};
use std::mem::MaybeUninit;

/// Operations for each element, roughly.
const COST: usize = 8;

/// What a norm does besides its rows: ε, and a factor and a term for each element of a row where
/// there are any.
#[derive(Clone, Copy)]
pub(crate) struct Norm<'a, E> {
    /// Elements in a row.
    pub(crate) size: usize,
    /// Whether a row loses its mean.
    pub(crate) centered: bool,
    pub(crate) epsilon: f64,
    /// `size` elements.
    pub(crate) weight: Option<&'a [E]>,
    /// `size` elements.
    pub(crate) bias: Option<&'a [E]>,
}

/// (x − mean) / √(variance + ε) · weight + bias over rows of `norm.size` elements, with the biased
/// variance; where they are not centered, x / √(mean of x² + ε) · weight + bias.
pub(crate) fn normalized<E: Float>(x: View<E>, norm: Norm<E>) -> Vec<E> {
    let (count, packed) = (x.layout.count(), x.as_slice());
    let (isa, runs) = (Isa::best(), Runs::new([&x.layout]));
    let group = norm.group();
    let write = |i, out: &mut [MaybeUninit<E>]| {
        let n = out.len();
        let (from, to) = match packed {
            Some(all) => (all[i * group..][..n].as_ptr(), out.as_mut_ptr().cast()),
            None => in_its_place(pack_part(x.data, &runs, i * group, out)),
        };
        E::Wide::vectorized(isa, norm.rows(from, to, n));
    };
    // SAFETY: a chunk is whole rows, and `Rows` writes all of them.
    unsafe { written_in_chunks(count, group, count * COST, write) }
}

/// As [`normalized`], each row in its place.
pub(crate) fn normalize_in_place<E: Float>(elements: &mut [E], norm: Norm<E>) {
    let (isa, work) = (Isa::best(), elements.len() * COST);
    for_each_chunk(elements, norm.group(), work, |_, chunk| {
        let (n, (from, to)) = (chunk.len(), in_its_place(chunk));
        E::Wide::vectorized(isa, norm.rows(from, to, n));
    });
}

impl<'a, E: Float> Norm<'a, E> {
    /// Elements in a piece of work: whole rows.
    fn group(&self) -> usize {
        lines_in_piece(self.size) * self.size
    }

    /// The rows in the `n` elements at `from`, whole rows, to `to`.
    fn rows(&self, from: *const E, to: *mut E, n: usize) -> Rows<'a, E> {
        assert!(n.is_multiple_of(self.size));
        assert!(self.weight.is_none_or(|weight| weight.len() == self.size));
        assert!(self.bias.is_none_or(|bias| bias.len() == self.size));
        Rows { from, to, count: n / self.size, norm: *self }
    }
}

/// Rows to be normalised, from one place to another that does not overlap, or to the same. Whoever
/// makes one vouches for both.
struct Rows<'a, E> {
    from: *const E,
    to: *mut E,
    count: usize,
    norm: Norm<'a, E>,
}

/// Short rows that go through each step together: while the sum of one is brought together from its
/// lanes, the next is read.
pub(super) const TOGETHER: usize = 8;
/// Elements in them, at most: a part of the fastest cache.
const NEAR: usize = 2048;

impl<E: Float> Kernel<E::Wide> for Rows<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let n = self.norm.size;
        let together = self.norm.together();
        let mut first = 0;
        while first < self.count {
            let rows = together.min(self.count - first);
            // SAFETY: the instruction set is the caller's, the rows those of `Rows`.
            unsafe {
                let (from, to) = (self.from.add(first * n), self.to.add(first * n));
                let moments = self.norm.moments::<V>(from, rows);
                for (row, moments) in moments.into_iter().enumerate().take(rows) {
                    self.norm.finish::<V>(from.add(row * n), to.add(row * n), moments);
                }
            }
            first += rows;
        }
    }
}

impl<E: Float> Norm<'_, E> {
    /// How many rows go through each step together.
    pub(super) fn together(&self) -> usize {
        (NEAR / self.size).clamp(1, TOGETHER)
    }

    /// The mean of each row (0 where that stays) and what its distance from it is multiplied by.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; so many rows, [`TOGETHER`] at most, can be read at `from`.
    #[inline(always)]
    pub(super) unsafe fn moments<V: Vector<Scalar = E::Wide>>(
        &self,
        from: *const E,
        rows: usize,
    ) -> [(E::Wide, E::Wide); TOGETHER] {
        let n = self.size;
        let epsilon = E::Wide::from_f64(self.epsilon);
        let mut both = [(E::Wide::zero(), E::Wide::zero()); TOGETHER];
        // SAFETY: the caller's.
        unsafe {
            if self.centered {
                for (row, (sum, _)) in both[..rows].iter_mut().enumerate() {
                    *sum = mean::<E, V>(from.add(row * n), n);
                }
            }
            for (row, (mean, scale)) in both[..rows].iter_mut().enumerate() {
                let squares;
                if self.centered {
                    (*mean, squares) = moments::<E, V>(from.add(row * n), n, *mean);
                } else {
                    squares = mean_of_squares::<E, V>(from.add(row * n), n);
                }
                *scale = (squares + epsilon).sqrt().recip();
            }
        }
        both
    }

    /// One row, given its mean (0 where that stays) and what its distance from it is multiplied by.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; the row can be read at `from` and written at
    /// `to`; `weight` and `bias` are as long as it.
    #[inline(always)]
    unsafe fn finish<V: Vector<Scalar = E::Wide>>(
        &self,
        from: *const E,
        to: *mut E,
        (mean, scale): (E::Wide, E::Wide),
    ) {
        let n = self.size;
        let whole = n / V::LANES * V::LANES;
        // SAFETY: the caller's.
        unsafe {
            let (mean, scale) = (V::splat(mean), V::splat(scale));
            let normal = |x: V| x.sub(mean).mul(scale);
            for at in (0..whole).step_by(V::LANES) {
                let mut y = normal(load::<E, V>(from.add(at)));
                if let Some(weight) = self.weight {
                    y = y.mul(load::<E, V>(weight.as_ptr().add(at)));
                }
                if let Some(bias) = self.bias {
                    y = y.add(load::<E, V>(bias.as_ptr().add(at)));
                }
                store(y, to.add(at));
            }
            if whole < n {
                let rest = |from: *const E| {
                    load_first::<E, V>(from.add(whole), n - whole, E::Wide::zero())
                };
                let mut y = normal(rest(from));
                if let Some(weight) = self.weight {
                    y = y.mul(rest(weight.as_ptr()));
                }
                if let Some(bias) = self.bias {
                    y = y.add(rest(bias.as_ptr()));
                }
                store_first(y, n - whole, to.add(whole));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::Layout;
    use crate::kernel::testing::{Rng, bits, in_pools};

    const PLAIN: Norm<'static, f32> =
        Norm { size: 0, centered: true, epsilon: 1e-5, weight: None, bias: None };

    fn norm(x: &[f32], size: usize) -> Vec<f32> {
        let view = View { data: x, layout: Layout::packed(&[x.len() / size, size]) };
        normalized(view, Norm { size, ..PLAIN })
    }

    #[test]
    fn the_variance_is_biased_and_epsilon_is_inside_the_root() {
        for (actual, expected) in norm(&[2., 0., 0., 2.], 4).iter().zip([1f32, -1., -1., 1.]) {
            assert!((actual - expected * 0.999_995).abs() < 1e-7);
        }
        assert_eq!(norm(&[0.1; 9], 9), [0.0; 9]);
    }

    #[test]
    fn rows_far_from_zero_keep_their_digits() {
        let mut rng = Rng::new(7);
        let x: Vec<f32> = (0..512).map(|_| 1000.0 + rng.unit() as f32).collect();
        let n = x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        for (&x, y) in x.iter().zip(norm(&x, 512)) {
            let expected = (f64::from(x) - mean) / (variance + 1e-5).sqrt();
            assert!((f64::from(y) - expected).abs() < 1e-4, "{y} {expected}");
        }
    }

    #[test]
    fn weight_and_bias_apply_to_any_strides_and_threads() {
        let mut rng = Rng::new(8);
        let block = rng.block::<f64>(&[50, 3, 40]);
        let (weight, bias) = (rng.values::<f64>(120), rng.values::<f64>(120));
        for centered in [true, false] {
            let norm = Norm { size: 120, centered, epsilon: 1e-5, weight: None, bias: None };
            let plain = normalized(block.view(), norm);
            for (w, b) in
                [(Some(&weight[..]), Some(&bias[..])), (None, Some(&bias)), (Some(&weight), None)]
            {
                let norm = Norm { weight: w, bias: b, ..norm };
                let result = in_pools(|| bits(&normalized(block.view(), norm)));
                for kind in 0..3 {
                    let other = block.scattered(kind);
                    assert_eq!(bits(&normalized(other.view(), norm)), result);
                }
                for (i, &actual) in result.iter().enumerate() {
                    let expected =
                        plain[i] * w.map_or(1.0, |w| w[i % 120]) + b.map_or(0.0, |b| b[i % 120]);
                    assert_eq!(f64::from_bits(actual), expected);
                }
            }
        }
    }

    /// The twin: the definition, in f64.
    fn slow(x: &[f32], centered: bool) -> impl Iterator<Item = f64> {
        let n = x.len() as f64;
        let sum = x.iter().map(|&x| f64::from(x)).sum::<f64>();
        let mean = if centered { sum / n } else { 0.0 };
        let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        x.iter().map(move |&x| (f64::from(x) - mean) / (variance + 1e-5).sqrt())
    }

    #[test]
    fn rows_of_every_length_match_the_definition_and_stay_in_their_place() {
        let mut rng = Rng::new(31);
        for size in (1..70).chain([257, 1000, 5003]) {
            let rows = 1 + rng.below(20);
            let x = rng.values::<f32>(rows * size);
            for centered in [true, false] {
                let norm = Norm { size, centered, ..PLAIN };
                let view = View { data: &x, layout: Layout::packed(&[rows, size]) };
                let y = normalized(view, norm);
                for (x, y) in x.chunks(size).zip(y.chunks(size)) {
                    for (actual, expected) in y.iter().zip(slow(x, centered)) {
                        assert!(
                            (f64::from(*actual) - expected).abs() <= 4e-6,
                            "{size}: {actual} {expected}"
                        );
                    }
                }
                let mut in_place = x.clone();
                normalize_in_place(&mut in_place, norm);
                assert_eq!(bits(&in_place), bits(&y));
            }
        }
        let empty = View { data: &[0f32; 0], layout: Layout::packed(&[3, 0]) };
        for centered in [true, false] {
            assert!(normalized(empty, Norm { centered, ..PLAIN }).is_empty());
        }
    }

    #[test]
    fn what_is_not_finite_stays_in_its_row() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vec![1f32; 3 * 37];
            x[40] = bad;
            let y = norm(&x, 37);
            assert!(y[37..74].iter().all(|y| y.is_nan()));
            assert!(y[..37].iter().chain(&y[74..]).all(|&y| y == 0.0));
            let view = View { data: &x, layout: Layout::packed(&[3, 37]) };
            let y = normalized(view, Norm { size: 37, centered: false, ..PLAIN });
            assert!(y[40].is_nan());
            assert!(y[..37].iter().chain(&y[74..]).all(|y| (y - 1.0).abs() < 1e-5));
        }
    }
}
