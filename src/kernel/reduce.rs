//! One number for each line along an axis.
//!
//! Sums are pairwise over blocks of eight interleaved lanes: the error grows with the logarithm of
//! the length, the order depends on the length alone, and the lanes vectorize. The variance is taken
//! in two passes, around the mean. Lines reach these loops packed ([`Lines`]), so the strides of the
//! input change no bit. Results are row-major over the other axes.

use super::layout::View;
use super::lines::Lines;
use crate::element::{Element, Float, Real};
use num_traits::Float as _;

/// Elements that the lanes add up before halves are paired.
const LEAF: usize = 256;
const LANES: usize = 8;

/// The sum of `f` of every element: 0 where there is none.
fn pairwise<R: Real>(line: &[R], f: &impl Fn(R) -> R) -> R {
    if line.len() > LEAF {
        let half = (line.len() / 2).next_multiple_of(LEAF / 2);
        return pairwise(&line[..half], f) + pairwise(&line[half..], f);
    }
    let mut lanes = [R::zero(); LANES];
    let (blocks, rest) = line.as_chunks::<LANES>();
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane += f(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// The mean and the biased variance of a line.
pub(super) fn moments<R: Real>(line: &[R]) -> (R, R) {
    let n = count::<R>(line.len());
    let mean = pairwise(line, &|x| x) / n;
    // The first-order error of the mean is taken back out of the squares.
    let error = pairwise(line, &|x| x - mean);
    let squares = pairwise(line, &|x| (x - mean) * (x - mean));
    (mean + error / n, (squares - error * error / n).max(R::zero()) / n)
}

#[allow(clippy::cast_precision_loss, reason = "lengths below 2^53 are exact")]
fn count<R: Real>(n: usize) -> R {
    R::from_f64(n as f64)
}

fn wide_lines<E: Float>(
    view: View<E>,
    at: usize,
    f: impl Fn(&[E::Wide]) -> E::Wide + Sync,
) -> Vec<E> {
    let lines = Lines::new(view, at);
    let mut out = vec![E::default(); lines.count];
    lines.for_each((&mut out, 1), 1, E::wide, |line, out| out[0] = E::narrow(f(line)));
    out
}

/// 0 for an empty axis.
pub(crate) fn sum<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    wide_lines(view, at, |line| pairwise(line, &|x| x))
}

/// NaN for an empty axis.
pub(crate) fn mean<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    wide_lines(view, at, |line| pairwise(line, &|x| x) / count(line.len()))
}

/// The biased variance, Σ(x − mean)² / n: NaN for an empty axis.
pub(crate) fn variance<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    wide_lines(view, at, |line| if line.is_empty() { E::Wide::nan() } else { moments(line).1 })
}

/// −∞ for an empty axis; NaN where the line has one.
pub(crate) fn max<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    wide_lines(view, at, line_max)
}

/// +∞ for an empty axis; NaN where the line has one.
pub(crate) fn min<E: Float>(view: View<E>, at: usize) -> Vec<E> {
    wide_lines(view, at, |line| {
        line.iter().fold(E::Wide::infinity(), |m, &x| if x < m || x.is_nan() { x } else { m })
    })
}

/// The maximum of a line: −∞ where it is empty, NaN where it has one.
fn line_max<R: Real>(line: &[R]) -> R {
    // A NaN once in `m` stays: no x is greater.
    line.iter().fold(R::neg_infinity(), |m, &x| if x > m || x.is_nan() { x } else { m })
}

/// The index of the first maximum; the first NaN counts as the maximum. 0 for an empty axis.
pub(crate) fn argmax<E: Element>(view: View<E>, at: usize) -> Vec<usize> {
    let lines = Lines::new(view, at);
    let mut out = vec![0; lines.count];
    lines.for_each(
        (&mut out, 1),
        1,
        |x| x,
        |line, out| {
            let mut best = 0;
            for (i, x) in line.iter().enumerate() {
                if is_nan(&line[best]) {
                    break;
                }
                if *x > line[best] || is_nan(x) {
                    best = i;
                }
            }
            out[0] = best;
        },
    );
    out
}

#[allow(clippy::eq_op, reason = "NaN alone differs from itself; integers and booleans never do")]
pub(super) fn is_nan<E: Element>(x: &E) -> bool {
    x != x
}

/// Folds each line from the first element to the last.
pub(crate) fn fold<A: Element, B: Element>(
    view: View<A>,
    at: usize,
    init: B,
    f: impl Fn(B, A) -> B + Sync,
) -> Vec<B> {
    let lines = Lines::new(view, at);
    let mut out = vec![B::default(); lines.count];
    lines.for_each(
        (&mut out, 1),
        1,
        |x| x,
        |line, out| {
            out[0] = line.iter().fold(init, |acc, &x| f(acc, x));
        },
    );
    out
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
            assert!(error <= 6e-8 * exact * (1.0 + (n as f64).log2()), "{n}: {error}");
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

    #[test]
    fn fold_goes_from_first_to_last() {
        assert_eq!(fold(row(&[1, 2, 3]), 0, 0i64, |acc, x: i32| acc * 10 + i64::from(x)), [123]);
    }
}
