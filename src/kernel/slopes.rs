//! The gradients of activation functions, on vectors.
//!
//! As the functions themselves they are safe for every argument: far out, where a product would be
//! ∞ · 0, the argument is moved to where the slope is the same number already.

use super::exp::exp_of_negative;
use super::math::{Gelu, GeluTanh, Silu, negative};
use super::pointwise::{Backward, Pointwise};
use super::simd::Vector;
use crate::element::Real;
use num_traits::{One, Zero};

impl<R: Real> Backward<R> for Silu {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V, g: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let x = within(x, 1e3);
            let (gate, slope) = sigmoid(x);
            g.mul(gate.add(x.mul(slope)))
        }
    }
}

impl<R: Real> Backward<R> for GeluTanh {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V, g: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let (x, one) = (within(x, 1e3), V::splat(R::one()));
            let slope = V::splat(R::from_f64(1.595_769_121_605_731)); // 2·√(2/π)
            let cubic = V::splat(R::from_f64(0.044715)).mul(x).mul(x);
            let inner = slope.mul(cubic.mul(V::splat(R::from_f64(3.0))).add(one));
            let (gate, slope) = sigmoid(x.mul(slope).mul(cubic.add(one)));
            g.mul(gate.add(x.mul(inner).mul(slope)))
        }
    }
}

/// Φ(x) + x · φ(x), φ the normal density.
impl<R: Real> Backward<R> for Gelu {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V, g: V) -> V {
        // SAFETY: the caller's.
        unsafe {
            let x = within(x, 40.0);
            let (half, tiny) = (V::splat(R::from_f64(0.5)), V::splat(R::from_f64(1e-34)));
            let square = x.mul(x);
            // Φ is gelu(x) / x; that near to 0 it is ½ to the last digit, also of f64.
            let divisor = square.if_less(tiny, V::splat(R::one()), x);
            let phi = Pointwise::of(Gelu, divisor).div(divisor);
            let phi = square.if_less(tiny, half, phi);
            let density = exp_of_negative(V::splat(R::zero()).sub(square.mul(half)));
            let density = density.mul(V::splat(R::from_f64(0.398_942_280_401_432_7)));
            g.mul(phi.add(x.mul(density)))
        }
    }
}

/// σ(x) and its slope σ(x) · σ(−x), neither of which is a difference.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn sigmoid<V: Vector>(x: V) -> (V, V) {
    // SAFETY: the caller's.
    unsafe {
        let (zero, one) = (V::splat(V::Scalar::zero()), V::splat(V::Scalar::one()));
        let small = exp_of_negative(negative(x));
        let share = one.div(one.add(small));
        let other = small.mul(share);
        (x.if_less(zero, other, share), other.mul(share))
    }
}

/// The nearest number to x in ±`limit`; NaN stays NaN.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn within<V: Vector>(x: V, limit: f64) -> V {
    use crate::element::Float;
    // SAFETY: the caller's. Both bounds give way to a NaN.
    unsafe {
        let x = V::splat(<V::Scalar as Float>::from_f64(-limit)).max(x);
        V::splat(<V::Scalar as Float>::from_f64(limit)).min(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Float;
    use crate::kernel::layout::{Layout, View};
    use crate::kernel::pointwise::backward;
    use crate::kernel::testing::{Rng, bits, in_pools};

    /// The twins: the definitions, in f64.
    fn slow(which: usize, x: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let c = 1.595_769_121_605_731;
        match which {
            0 => sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))),
            1 => {
                let s = sigmoid(c * x * (1.0 + 0.044715 * x * x));
                s + x * s * (1.0 - s) * c * (1.0 + 3.0 * 0.044715 * x * x)
            }
            _ => {
                let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                0.5 * libm::erfc(-x / std::f64::consts::SQRT_2) + x * density
            }
        }
    }

    fn slopes<E: Float>(which: usize, x: View<E>, g: View<E>) -> Vec<E> {
        match which {
            0 => backward(x, g, Silu),
            1 => backward(x, g, GeluTanh),
            _ => backward(x, g, Gelu),
        }
    }

    fn check<E: Float>(tolerance: f64) {
        for which in 0..3 {
            let mut x: Vec<E> = (-3000..=3000).map(|i| E::from_f64(f64::from(i) / 200.0)).collect();
            let small = (-40..0).flat_map(|power| [1.0, -1.0].map(|sign| sign * 10f64.powi(power)));
            x.extend(small.map(E::from_f64));
            let layout = Layout::packed(&[x.len()]);
            let g = vec![E::from_f64(1.0); x.len()];
            let result = slopes(which, View { data: &x, layout }, View { data: &g, layout });
            for (x, y) in x.iter().zip(result) {
                let expected = slow(which, x.to_f64());
                let error = (y.to_f64() - expected).abs();
                assert!(error <= tolerance, "{which} {x:?} {y:?} {expected}");
            }
        }
    }

    #[test]
    fn slopes_match_their_definitions() {
        check::<f32>(1e-6);
        check::<f64>(1e-14);
    }

    #[test]
    fn far_out_the_slope_is_0_or_1_and_nan_stays() {
        let x = [f32::NEG_INFINITY, f32::MIN, -1e4, 0.0, 1e4, f32::MAX, f32::INFINITY, f32::NAN];
        let (layout, g) = (Layout::packed(&[8]), [2f32; 8]);
        for which in 0..3 {
            let y = slopes(which, View { data: &x, layout }, View { data: &g, layout });
            assert_eq!(y[..7], [0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0], "{which}");
            assert!(y[7].is_nan());
        }
    }

    #[test]
    fn strides_and_threads_change_no_bit() {
        let mut rng = Rng::new(72);
        for dims in [&[][..], &[0], &[7, 3], &[61, 3, 97]] {
            let (x, g) = (rng.block::<f32>(dims), rng.block::<f32>(dims));
            for which in 0..3 {
                let expected = in_pools(|| bits(&slopes(which, x.view(), g.view())));
                for kind in 0..3 {
                    let (x, g) = (x.scattered(kind), g.scattered(2 - kind));
                    assert_eq!(bits(&slopes(which, x.view(), g.view())), expected);
                }
            }
        }
    }
}
