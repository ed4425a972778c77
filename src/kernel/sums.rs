//! Sums along a line of neighbours, vector by vector.
//!
//! Vectors are added up in leaves of a fixed size, in interleaved partial sums that do not wait for
//! each other; the sums of leaves are added in pairs, those in pairs, and so on. So the error grows
//! with the logarithm of the length, and the order depends on the length alone.

use super::simd::Vector;
use super::simd::elements::{load, load_first, sum_of_lanes};
use crate::element::Float;
use num_traits::Zero;
use std::mem::MaybeUninit;

/// Vectors in a leaf.
const LEAF: usize = 32;
/// Partial sums in a leaf.
const PARTS: usize = 4;
/// More levels of pairs than the leaves of any line have.
const LEVELS: usize = usize::BITS as usize;

/// The sums of the `N` numbers that `f` makes of every element of `line`, wide. `f` of `none` is 0.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `line` is the first of `n` elements.
#[inline(always)]
pub(super) unsafe fn sums<E: Float, V: Vector<Scalar = E::Wide>, const N: usize>(
    line: *const E,
    n: usize,
    none: E::Wide,
    f: impl Fn(V) -> [V; N],
) -> [E::Wide; N] {
    // SAFETY: the caller's; places are within the line.
    unsafe {
        let whole = |at| f(load::<E, V>(line.add(at)));
        let part = |at, count| f(load_first::<E, V>(line.add(at), count, none));
        sums_of(n, whole, part)
    }
}

/// The sums of `n` lanes' `N` numbers: of a whole vector at a place, and of a part, in whose other lanes
/// they are 0.
///
/// # Safety
///
/// The processor has the instruction set of `V`; both may be asked for all that lies below `n`.
#[inline(always)]
pub(super) unsafe fn sums_of<V: Vector<Scalar: Zero>, const N: usize>(
    n: usize,
    whole: impl Fn(usize) -> [V; N],
    part: impl Fn(usize, usize) -> [V; N],
) -> [V::Scalar; N] {
    let leaf = LEAF * V::LANES;
    let of_leaf = |at, n| {
        // SAFETY: the caller's.
        unsafe { sum_of_leaf(at, n, &whole, &part) }
    };
    // SAFETY: the caller's; a place is read while a sum waits there.
    unsafe {
        let sum = if n <= leaf {
            of_leaf(0, n)
        } else {
            // A sum of 2ⁱ leaves waits at place i for the next of its kind, while bit i of `leaves` is 1.
            let mut waiting = [const { MaybeUninit::<[V; N]>::uninit() }; LEVELS];
            let mut leaves = 0usize;
            while (leaves + 1) * leaf <= n {
                let mut sum = of_leaf(leaves * leaf, leaf);
                let pairs = leaves.trailing_ones() as usize;
                for other in &waiting[..pairs] {
                    sum = add(other.assume_init(), sum);
                }
                waiting[pairs].write(sum);
                leaves += 1;
            }
            let done = leaves * leaf;
            let mut sum = of_leaf(done, n - done);
            for (level, other) in waiting.iter().enumerate() {
                if leaves >> level & 1 == 1 {
                    sum = add(other.assume_init(), sum);
                }
            }
            sum
        };
        let mut numbers = [V::Scalar::zero(); N];
        for (number, sum) in numbers.iter_mut().zip(sum) {
            *number = sum_of_lanes(sum);
        }
        numbers
    }
}

/// As [`sums_of`], lane by lane, of at most a leaf from `start` on.
///
/// # Safety
///
/// As [`sums_of`].
#[inline(always)]
unsafe fn sum_of_leaf<V: Vector<Scalar: Zero>, const N: usize>(
    start: usize,
    n: usize,
    whole: &impl Fn(usize) -> [V; N],
    part: &impl Fn(usize, usize) -> [V; N],
) -> [V; N] {
    let step = PARTS * V::LANES;
    // SAFETY: the caller's.
    unsafe {
        let mut parts = [[V::splat(V::Scalar::zero()); N]; PARTS];
        let mut at = 0;
        while at + step <= n {
            for (i, sum) in parts.iter_mut().enumerate() {
                *sum = add(*sum, whole(start + at + i * V::LANES));
            }
            at += step;
        }
        for sum in &mut parts {
            if at >= n {
                break;
            }
            let count = V::LANES.min(n - at);
            *sum = add(*sum, part(start + at, count));
            at += count;
        }
        add(add(parts[0], parts[1]), add(parts[2], parts[3]))
    }
}

#[inline(always)]
unsafe fn add<V: Vector, const N: usize>(mut a: [V; N], b: [V; N]) -> [V; N] {
    for (a, b) in a.iter_mut().zip(b) {
        // SAFETY: the caller vouches for the instruction set.
        *a = unsafe { a.add(b) };
    }
    a
}

/// The mean of a line; NaN of an empty one.
///
/// # Safety
///
/// As [`sums`].
#[inline(always)]
pub(super) unsafe fn mean<E: Float, V: Vector<Scalar = E::Wide>>(
    line: *const E,
    n: usize,
) -> E::Wide {
    // SAFETY: the caller's.
    let [sum] = unsafe { sums::<E, V, 1>(line, n, E::Wide::zero(), |x| [x]) };
    sum / count::<E>(n)
}

/// The mean and the biased variance of a line, given the `mean` as summed first: the first-order error
/// of that is taken back out of both.
///
/// # Safety
///
/// As [`sums`].
#[inline(always)]
pub(super) unsafe fn moments<E: Float, V: Vector<Scalar = E::Wide>>(
    line: *const E,
    n: usize,
    mean: E::Wide,
) -> (E::Wide, E::Wide) {
    // SAFETY: the caller's.
    let [error, squares] = unsafe {
        let around = V::splat(mean);
        sums::<E, V, 2>(line, n, mean, |x| {
            let x = x.sub(around);
            [x, x.mul(x)]
        })
    };
    let n = count::<E>(n);
    let variance = (squares - error * error / n) / n;
    let zero = E::Wide::zero();
    (mean + error / n, if variance < zero { zero } else { variance })
}

/// The mean of the squares of a line; NaN of an empty one.
///
/// # Safety
///
/// As [`sums`].
#[inline(always)]
pub(super) unsafe fn mean_of_squares<E: Float, V: Vector<Scalar = E::Wide>>(
    line: *const E,
    n: usize,
) -> E::Wide {
    // SAFETY: the caller's.
    let [sum] = unsafe { sums::<E, V, 1>(line, n, E::Wide::zero(), |x| [x.mul(x)]) };
    sum / count::<E>(n)
}

#[allow(clippy::cast_precision_loss, reason = "lengths below 2^53 are exact")]
fn count<E: Float>(n: usize) -> E::Wide {
    E::Wide::from_f64(n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::simd::{Isa, Kernel, Lanes};
    use crate::kernel::testing::Rng;

    struct Moments<'a, E>(&'a [E]);

    impl<E: Float> Kernel<E::Wide> for Moments<'_, E> {
        type Output = (E::Wide, E::Wide);
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = E::Wide>>(self) -> (E::Wide, E::Wide) {
            let (line, n) = (self.0.as_ptr(), self.0.len());
            // SAFETY: the instruction set is the caller's, and the line a slice.
            unsafe { moments::<E, V>(line, n, mean::<E, V>(line, n)) }
        }
    }

    /// The twin: the definition, in f64.
    fn slow(x: &[f32]) -> (f64, f64) {
        let n = x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        (mean, x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n)
    }

    #[test]
    fn moments_match_their_definition_on_every_length() {
        let mut rng = Rng::new(30);
        for isa in Isa::all() {
            for n in (1..70).chain([255, 256, 257, 511, 513, 1000, 4099, 100_003]) {
                let x: Vec<f32> = (0..n).map(|_| 3.0 + rng.unit() as f32).collect();
                let (mean, variance) = f32::vectorized(isa, Moments(&x));
                let exact = slow(&x);
                assert!((f64::from(mean) - exact.0).abs() <= 5e-7, "{n}: {mean} {exact:?}");
                let error = (f64::from(variance) - exact.1).abs();
                assert!(error <= 1e-6 * exact.1 + 1e-13, "{n}: {variance} {exact:?}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_not_lost() {
        for isa in Isa::all() {
            for n in [1, 5, 64, 300, 2000] {
                for (at, x) in [(0, f32::NAN), (n - 1, f32::INFINITY), (n / 2, f32::NEG_INFINITY)] {
                    let mut line = vec![1f32; n];
                    line[at] = x;
                    let (mean, variance) = f32::vectorized(isa, Moments(&line));
                    assert!(mean.is_nan() && variance.is_nan(), "{n} {x}: {mean} {variance}");
                }
            }
            assert!(f32::vectorized(isa, Moments::<f32>(&[])).0.is_nan());
        }
    }
}
