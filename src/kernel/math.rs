//! Activation functions, on vectors.
//!
//! Each is safe for every argument: where a formula would overflow it is turned so that the
//! exponential has a negative argument and underflows to 0 instead. What is that small, below 10⁻³⁶, may
//! come out as 0.

use super::exp::{exp, exp_of_negative};
use super::pointwise::Pointwise;
use super::simd::elements::lanes;
use super::simd::{MAX_LANES, Vector};
use crate::element::Real;
use num_traits::{Float as _, Zero};

/// eˣ.
#[derive(Clone, Copy)]
pub(crate) struct Exponential;

/// The hyperbolic tangent.
#[derive(Clone, Copy)]
pub(crate) struct Tanh;

/// 1 / (1 + exp(−x)).
#[derive(Clone, Copy)]
pub(crate) struct Sigmoid;

/// x · sigmoid(x).
#[derive(Clone, Copy)]
pub(crate) struct Silu;

/// x · Φ(x), where Φ is the standard normal distribution.
#[derive(Clone, Copy)]
pub(crate) struct Gelu;

/// The approximation x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), written as x · sigmoid(2·…).
#[derive(Clone, Copy)]
pub(crate) struct GeluTanh;

/// max(x, 0); NaN stays NaN.
pub(crate) fn relu<R: Real>(x: R) -> R {
    if x < R::zero() { R::zero() } else { x }
}

/// The number of `low..=high` next to `x`; NaN stays NaN.
pub(crate) fn clamped<R: Real>(x: R, low: R, high: R) -> R {
    match () {
        () if x < low => low,
        () if x > high => high,
        () => x,
    }
}

impl<R: Real> Pointwise<R> for Exponential {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V {
        // SAFETY: the caller's.
        unsafe { exp(x) }
    }
}

impl<R: Real> Pointwise<R> for Tanh {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V {
        // SAFETY: the caller's.
        unsafe { <R as Special>::tanh(x) }
    }
}

impl<R: Real> Pointwise<R> for Sigmoid {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let (zero, one) = (V::splat(R::zero()), V::splat(R::one()));
            let small = exp_of_negative(negative(x));
            x.if_less(zero, small, one).div(one.add(small))
        }
    }
}

impl<R: Real> Pointwise<R> for Silu {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V {
        // SAFETY: the caller's.
        unsafe { gated(x, Sigmoid.of(x)) }
    }
}

impl<R: Real> Pointwise<R> for GeluTanh {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let slope = V::splat(R::from_f64(1.595_769_121_605_731)); // 2·√(2/π)
            let cubic = V::splat(R::from_f64(0.044715)).mul(x).mul(x).add(V::splat(R::one()));
            gated(x, Sigmoid.of(x.mul(slope).mul(cubic)))
        }
    }
}

impl<R: Real> Pointwise<R> for Gelu {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V {
        // SAFETY: the caller's.
        unsafe { <R as Special>::gelu(x) }
    }
}

/// −|x|.
#[inline(always)]
pub(super) unsafe fn negative<V: Vector>(x: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { V::splat(V::Scalar::zero()).sub(x).min(x) }
}

/// `x · gate` with −∞ · 0 = 0: the limit of the gated functions.
#[inline(always)]
unsafe fn gated<V: Vector>(x: V, gate: V) -> V {
    // SAFETY: the caller vouches for the instruction set. The maximum is x where that is NaN.
    unsafe { V::splat(V::Scalar::min_value()).max(x).mul(gate) }
}

/// The functions that each type computes in its own way.
pub trait Special: Sized {
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    unsafe fn tanh<V: Vector<Scalar = Self>>(x: V) -> V;
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    unsafe fn gelu<V: Vector<Scalar = Self>>(x: V) -> V;
}

impl Special for f32 {
    /// Near 0 the polynomial of Cephes' tanhf, further out 1 − 2 / (exp(2|x|) + 1).
    #[allow(clippy::excessive_precision, reason = "as published")]
    #[inline(always)]
    unsafe fn tanh<V: Vector<Scalar = f32>>(x: V) -> V {
        const NEAR: f32 = 0.625;
        const COEFFICIENTS: [f32; 5] = [
            -5.704_988_727_45e-3,
            2.063_908_879_54e-2,
            -5.373_971_555_31e-2,
            1.333_144_220_36e-1,
            -3.333_328_194_22e-1,
        ];
        // SAFETY: the caller's.
        unsafe {
            let (zero, one) = (V::splat(0.0), V::splat(1.0));
            let negative = negative(x);
            let small = exp_of_negative(negative.add(negative));
            let far = one.sub(small.add(small).div(one.add(small)));
            let far = x.if_less(zero, zero.sub(far), far);
            let square = x.mul(x);
            let near = polynomial(square, &COEFFICIENTS).mul_add(square, one).mul(x);
            V::splat(-NEAR).if_less(negative, near, far)
        }
    }

    /// max(x, 0) − |x| · exp(−x²/2) · W(|x|), where W(y) = exp(y²/2) · erfc(y/√2) / 2 falls slowly
    /// from 1/2. W is a quotient of polynomials, the form of Cody ("Rational Chebyshev approximations
    /// for the error function", 1969), with coefficients of least relative error for 0 ≤ y ≤ 14,
    /// 6·10⁻⁹. All are positive, so nothing cancels. x² is used with the digits that it loses to
    /// rounding: the exponential would make 100 units in the last place of them.
    #[allow(clippy::excessive_precision, reason = "as fitted")]
    #[inline(always)]
    unsafe fn gelu<V: Vector<Scalar = f32>>(x: V) -> V {
        /// From here on the result is 0 or x.
        const END: f32 = 15.0;
        const NUMERATOR: [f32; 5] =
            [4.077_711_949e-3, 4.037_350_496e-2, 1.824_650_328e-1, 4.372_558_087e-1, 0.5];
        const DENOMINATOR: [f32; 6] = [
            1.022_117_939e-2,
            1.012_081_759e-1,
            4.674_374_331e-1,
            1.199_304_960,
            1.672_396_571,
            1.0,
        ];
        // SAFETY: the caller's.
        unsafe {
            let half = V::splat(-0.5);
            // The greater of the two is the negative where that is NaN.
            let y = V::splat(-END).max(negative(x));
            let (square, lost) = square(y);
            let power = exp_of_negative(square.mul(half));
            let power = lost.mul(half).mul_add(power, power);
            let y = V::splat(0.0).sub(y);
            let w = polynomial(y, &NUMERATOR).div(polynomial(y, &DENOMINATOR));
            x.if_less(V::splat(0.0), V::splat(-0.0), x).sub(y.mul(power).mul(w))
        }
    }
}

impl Special for f64 {
    #[inline(always)]
    unsafe fn tanh<V: Vector<Scalar = f64>>(x: V) -> V {
        // SAFETY: the caller's.
        unsafe { each_lane(x, f64::tanh) }
    }

    /// x/2 · erfc(−x/√2): erfc rather than 1 + erf keeps the small values for x below 0.
    #[inline(always)]
    unsafe fn gelu<V: Vector<Scalar = f64>>(x: V) -> V {
        fn gelu(x: f64) -> f64 {
            let phi = 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            if phi == 0.0 { -0.0 } else { x * phi }
        }
        // SAFETY: the caller's.
        unsafe { each_lane(x, gelu) }
    }
}

#[inline(always)]
unsafe fn each_lane<V: Vector>(x: V, f: impl Fn(V::Scalar) -> V::Scalar) -> V {
    // SAFETY: the caller vouches for the instruction set; no vector has more lanes than there are.
    unsafe {
        let lanes: [V::Scalar; MAX_LANES] = lanes(x);
        let mut results = lanes;
        for (result, lane) in results[..V::LANES].iter_mut().zip(lanes) {
            *result = f(lane);
        }
        V::load(results.as_ptr())
    }
}

/// x², and what rounding takes from it: by Dekker's halves, so also where a product and a sum round
/// twice. For |x| below 2¹⁰⁰.
#[inline(always)]
unsafe fn square<V: Vector<Scalar = f32>>(x: V) -> (V, V) {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let spread = x.mul(V::splat(4097.0)); // 2¹² + 1
        let high = spread.sub(spread.sub(x));
        let low = x.sub(high);
        let square = x.mul(x);
        let lost = high.mul(high).sub(square).add(high.add(high).mul(low)).add(low.mul(low));
        (square, lost)
    }
}

/// The polynomial of these coefficients, the highest first.
#[inline(always)]
unsafe fn polynomial<V: Vector, const N: usize>(x: V, coefficients: &[V::Scalar; N]) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let mut sum = V::splat(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            sum = sum.mul_add(x, V::splat(coefficient));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::pointwise::map_in_place;
    use crate::kernel::simd::{Isa, Kernel, Lanes};

    fn of<R: Real>(f: impl Pointwise<R>, x: R) -> R {
        let mut x = [x];
        map_in_place(&mut x, f);
        x[0]
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1e-3), "{a} {b}");
    }

    #[test]
    fn activations_match_their_textbook_values() {
        close(of(Gelu, 1.0), 0.841_344_746_068_542_9);
        close(of(Gelu, -1.0), -0.158_655_253_931_457_05);
        close(of(GeluTanh, 1.0), 0.841_191_990_608_303_1);
        close(of(Silu, 1.0), 0.731_058_578_630_004_9);
        close(of(Sigmoid, -1.0), 0.268_941_421_369_995_1);
        close(of(Tanh, 1.0), 0.761_594_155_955_764_9);
        assert_eq!((relu(-1.0), relu(2.0)), (0.0, 2.0));
    }

    fn limits(gated: impl Pointwise<f32> + Pointwise<f64>) {
        for x in [1000.0f32, 1e4, 1e20, f32::MAX, f32::INFINITY] {
            assert_eq!((of(gated, x), of(gated, -x)), (x, 0.0), "{x}");
            assert_eq!((of(Sigmoid, x), of(Sigmoid, -x)), (1.0, 0.0));
            assert_eq!((of(Tanh, x), of(Tanh, -x)), (1.0, -1.0));
            assert_eq!((relu(x), relu(-x)), (x, 0.0));
        }
        for x in [1e300, f64::INFINITY] {
            assert_eq!((of(gated, x), of(gated, -x)), (x, 0.0), "{x}");
        }
        assert!(of(gated, f64::NAN).is_nan() && of(gated, -f32::NAN).is_nan());
        for x in [0.0f32, -0.0] {
            assert_eq!(of(gated, x).to_bits(), x.to_bits());
        }
    }

    #[test]
    fn activations_of_extreme_arguments_reach_their_limits() {
        limits(Gelu);
        limits(GeluTanh);
        limits(Silu);
        assert!(relu(f32::NAN).is_nan() && of(Tanh, f32::NAN).is_nan());
        assert!(of(Sigmoid, f64::NAN).is_nan());
        assert_eq!(of(Tanh, -0.0f32).to_bits(), (-0.0f32).to_bits());
    }

    struct Each<'a, F>(&'a mut [f32], F);

    impl<F: Pointwise<f32>> Kernel<f32> for Each<'_, F> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = f32>>(self) {
            for x in self.0.chunks_exact_mut(V::LANES) {
                // SAFETY: the caller vouches for the instruction set, the chunk has `LANES` elements.
                unsafe { self.1.of(V::load(x.as_ptr())).store(x.as_mut_ptr()) }
            }
        }
    }

    /// Every sign, exponent and a sample of the fractions; all of the range that matters, densely.
    fn arguments() -> Vec<f32> {
        let step = if cfg!(debug_assertions) { 199_999 } else { 9_973 };
        let mut x: Vec<f32> = (0..=u32::MAX).step_by(step).map(f32::from_bits).collect();
        x.retain(|x| x.is_finite());
        let dense = if cfg!(debug_assertions) { 10_000 } else { 200_000 };
        x.extend((0..dense).map(|i| (i as f32 / dense as f32 - 0.5) * 32.0));
        x.resize(x.len().next_multiple_of(MAX_LANES), 0.0);
        x
    }

    /// Results below this may be 0.
    const FLOOR: f64 = 1.1e-36;

    /// The largest error in units of the last place of the result.
    fn worst(isa: Isa, f: impl Pointwise<f32>, twin: impl Fn(f64) -> f64, x: &[f32]) -> f64 {
        let mut y = x.to_vec();
        f32::vectorized(isa, Each(&mut y, f));
        let error = |(&x, &y): (&f32, &f32)| {
            let exact = twin(f64::from(x));
            let rounded = exact.abs() as f32;
            let unit = f64::from(rounded.next_up()) - f64::from(rounded);
            let error = (f64::from(y) - exact).abs();
            if exact.abs() < FLOOR && error < FLOOR { 0.0 } else { error / unit }
        };
        x.iter().zip(&y).map(error).fold(0.0, f64::max)
    }

    #[test]
    fn functions_of_f32_are_within_their_bounds_on_the_whole_range() {
        let gelu = |x: f64| x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
        let sigmoid =
            |x: f64| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
        for isa in Isa::all() {
            let all = arguments();
            let upper: Vec<f32> = all.iter().map(|x| x.abs() - 1.0).collect();
            let errors = [
                worst(isa, Tanh, f64::tanh, &all),
                worst(isa, Sigmoid, sigmoid, &all),
                worst(isa, Silu, |x| x * sigmoid(x), &all),
                worst(isa, Gelu, gelu, &all),
                worst(isa, Gelu, gelu, &upper),
            ];
            for (error, bound) in errors.into_iter().zip([3.0, 4.0, 4.0, 10.0, 4.0]) {
                assert!(error <= bound, "{isa:?}: {errors:?}");
            }
        }
    }

    #[test]
    fn the_tanh_form_of_gelu_is_near_its_definition() {
        for isa in Isa::all() {
            let x = arguments();
            let mut y = x.clone();
            f32::vectorized(isa, Each(&mut y, GeluTanh));
            for (&x, &y) in x.iter().zip(&y) {
                let x = f64::from(x);
                let inner = 0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x);
                let exact = if inner < -20.0 { 0.0 } else { x / 2.0 * (1.0 + inner.tanh()) };
                assert!(
                    (f64::from(y) - exact).abs() <= 3e-7 * exact.abs().max(1.0),
                    "{x} {y} {exact}"
                );
            }
        }
    }
}
