//! One number for each line along an axis.
//!
//! Sums are made in vectors and in pairs ([`sums`](super::sums)), the variance in two passes, around
//! the mean. Lines reach these loops packed ([`Lines`]), so the strides of the input change no bit.
//! Results are row-major over the other axes.

use super::elementwise::packed;
use super::layout::View;
use super::lines::Lines;
use super::parallel::{PIECE, for_each_chunk};
use super::simd::{Isa, Kernel, Lanes, Vector};
use super::sums::{self, moments, sums};
use crate::element::{Element, Float};
use num_traits::{Float as _, Zero};

/// 0 for an empty axis.
pub(crate) fn sum<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    E::reduced(view, at, What::Sum)
}

/// NaN for an empty axis.
pub(crate) fn mean<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    E::reduced(view, at, What::Mean)
}

/// The biased variance, Σ(x − mean)² / n: NaN for an empty axis.
pub(crate) fn variance<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    E::reduced(view, at, What::Variance)
}

/// −∞ for an empty axis; NaN where the line has one.
pub(crate) fn max<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    Lines::new(view, at).map(1, |line| E::narrow(line_max(line)))
}

/// +∞ for an empty axis; NaN where the line has one.
pub(crate) fn min<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    let least = |m, x: E::Wide| if x < m || x.is_nan() { x } else { m };
    Lines::new(view, at)
        .map(1, |line| E::narrow(line.iter().map(|x| x.wide()).fold(E::Wide::infinity(), least)))
}

/// Σ x² of all elements, in f64.
pub(crate) fn sum_of_squares<E: Float>(view: View<E>) -> f64 {
    let packed = packed(view);
    let mut sums = vec![0.0; packed.len().div_ceil(PIECE)];
    for_each_chunk(&mut sums, 1, packed.len(), |i, sum| {
        let part = &packed[i * PIECE..packed.len().min((i + 1) * PIECE)];
        // Sums side by side do not wait for each other.
        let mut lanes = [0.0; 8];
        for some in part.chunks(lanes.len()) {
            for (lane, x) in lanes.iter_mut().zip(some) {
                *lane += x.to_f64() * x.to_f64();
            }
        }
        sum[0] = lanes.iter().sum();
    });
    sums.iter().sum()
}

/// What is taken of a line of neighbours.
struct OfLine<'a, E> {
    line: &'a [E],
    what: What,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Sum,
    Mean,
    Variance,
}

impl<E: Float> Kernel<E::Wide> for OfLine<'_, E> {
    type Output = E::Wide;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) -> E::Wide {
        let (line, n) = (self.line.as_ptr(), self.line.len());
        // SAFETY: the instruction set is the caller's, and the line a slice.
        unsafe {
            match self.what {
                What::Sum => sums::<E, V, 1>(line, n, E::Wide::zero(), |x| [x])[0],
                What::Mean => sums::mean::<E, V>(line, n),
                What::Variance => moments::<E, V>(line, n, sums::mean::<E, V>(line, n)).1,
            }
        }
    }
}

pub(super) fn vectorized<E: Float>(view: View<E>, at: usize, what: What) -> Vec<E> {
    let isa = Isa::best();
    let of = |line: &[E]| E::narrow(E::Wide::vectorized(isa, OfLine { line, what }));
    Lines::new(view, at).map(1, of)
}

/// The maximum of a line: −∞ where it is empty, NaN where it has one.
fn line_max<E: Float>(line: &[E]) -> E::Wide {
    // A NaN once in `m` stays: no x is greater.
    let greatest = |m, x: E::Wide| if x > m || x.is_nan() { x } else { m };
    line.iter().map(|x| x.wide()).fold(E::Wide::neg_infinity(), greatest)
}

/// The index of the first maximum; the first NaN counts as the maximum. 0 for an empty axis.
pub(crate) fn argmax<E: Element>(view: View<E>, at: usize) -> Vec<usize> {
    best(view, at, |x, best| x > best)
}

/// The index of the first minimum; the first NaN counts as the minimum. 0 for an empty axis.
pub(crate) fn argmin<E: Element>(view: View<E>, at: usize) -> Vec<usize> {
    best(view, at, |x, best| x < best)
}

fn best<E: Element>(
    view: View<E>,
    at: usize,
    is_better: impl Fn(&E, &E) -> bool + Sync,
) -> Vec<usize> {
    Lines::new(view, at).map(1, |line| {
        let mut best = 0;
        for (i, x) in line.iter().enumerate() {
            if is_nan(&line[best]) {
                break;
            }
            if is_better(x, &line[best]) || is_nan(x) {
                best = i;
            }
        }
        best
    })
}

#[allow(clippy::eq_op, reason = "NaN alone differs from itself; integers and booleans never do")]
pub(super) fn is_nan<E: Element>(x: &E) -> bool {
    x != x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::Layout;
    use crate::kernel::testing::{Rng, bits, in_pools};

    fn row<E>(data: &[E]) -> View<'_, E> {
        View { data, layout: Layout::packed(&[data.len()]) }
    }

    #[test]
    fn reductions_do_not_depend_on_strides_or_threads() {
        let dims = [5, 300, 7];
        let block = Rng::new(3).block::<f32>(&dims);
        for at in 0..3 {
            for f in [sum, mean, variance, max, min] {
                let expected = in_pools(|| bits(&f(block.view(), at)));
                for kind in 0..3 {
                    assert_eq!(bits(&f(block.scattered(kind).view(), at)), expected);
                }
            }
        }
    }

    #[test]
    fn long_sums_neither_stall_nor_lose() {
        let ones = vec![1f32; (1 << 24) + 5];
        assert_eq!(sum(row(&ones), 0), [16_777_221f32 as f32]);
        let mut rng = Rng::new(4);
        for n in [1, 7, 8, 255, 256, 257, 1000, 100_003] {
            let x: Vec<f32> = (0..n).map(|_| rng.unit() as f32).collect();
            let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
            let error = (f64::from(sum(row(&x), 0)[0]) - exact).abs();
            assert!(error <= 6e-8 * exact * (1.0 + f64::from(n).log2()), "{n}: {error}");
        }
    }

    #[test]
    fn variance_survives_an_offset() {
        let x: Vec<f32> = (0..1000).map(|i| 10_000.0 + (i % 2) as f32).collect();
        assert_eq!(variance(row(&x), 0), [0.25]);
        assert_eq!(variance(row(&[3.0f32; 9]), 0), [0.0]);
    }

    #[test]
    fn empty_axes_have_neutral_results() {
        let view = View { data: &[0f32; 0], layout: Layout::packed(&[2, 0]) };
        assert_eq!(sum(view, 1), [0.0; 2]);
        assert_eq!(max(view, 1), [f32::NEG_INFINITY; 2]);
        assert_eq!(min(view, 1), [f32::INFINITY; 2]);
        assert!(mean(view, 1).iter().chain(&variance(view, 1)).all(|x| x.is_nan()));
        assert_eq!(argmax(view, 1), [0; 2]);
        assert_eq!(sum(view, 0), [0.0; 0]);
    }

    #[test]
    fn nan_wins() {
        let x = [1.0, f32::NAN, 3.0, f32::NAN];
        assert!(max(row(&x), 0)[0].is_nan() && min(row(&x), 0)[0].is_nan());
        assert_eq!(argmax(row(&x), 0), [1]);
        assert_eq!(argmax(row(&[2, 5, 5, 1]), 0), [1]);
    }
}
