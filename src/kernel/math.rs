//! Activation functions of one number, computed in the wide type.
//!
//! Each is safe for every finite argument: where a formula would overflow it is turned so that the
//! exponential has a negative argument and underflows to 0 instead.

use crate::element::Real;

/// x · Φ(x), where Φ is the standard normal distribution: x/2 · erfc(−x/√2).
pub(crate) fn gelu<R: Real>(x: R) -> R {
    // erfc rather than 1 + erf: keeps the small values for x below 0.
    let x = x.to_f64();
    let phi = 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    R::from_f64(if phi == 0.0 { -0.0 } else { x * phi })
}

/// The approximation x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), written as x · sigmoid(2·…).
pub(crate) fn gelu_tanh<R: Real>(x: R) -> R {
    let inner = R::from_f64(1.595_769_121_605_731) * x; // 2·√(2/π)·x
    let inner = inner * (R::one() + R::from_f64(0.044715) * x * x);
    times(x, sigmoid(inner))
}

/// x · sigmoid(x).
pub(crate) fn silu<R: Real>(x: R) -> R {
    times(x, sigmoid(x))
}

/// 1 / (1 + exp(−x)).
pub(crate) fn sigmoid<R: Real>(x: R) -> R {
    let small = (-x.abs()).exp();
    let large = (R::one() + small).recip();
    if x < R::zero() { small * large } else { large }
}

/// max(x, 0); NaN stays NaN.
pub(crate) fn relu<R: Real>(x: R) -> R {
    if x < R::zero() { R::zero() } else { x }
}

/// `x · gate` with infinity · 0 = 0: the limit of the gated functions.
fn times<R: Real>(x: R, gate: R) -> R {
    if gate == R::zero() { -R::zero() } else { x * gate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1e-3), "{a} {b}");
    }

    #[test]
    fn activations_match_their_textbook_values() {
        close(gelu(1.0), 0.841_344_746_068_542_9);
        close(gelu(-1.0), -0.158_655_253_931_457_05);
        close(gelu_tanh(1.0), 0.841_191_990_608_303_1);
        close(silu(1.0), 0.731_058_578_630_004_9);
        close(sigmoid(-1.0), 0.268_941_421_369_995_1);
        assert_eq!((relu(-1.0), relu(2.0)), (0.0, 2.0));
    }

    #[test]
    fn activations_of_large_arguments_reach_their_limits() {
        for x in [1000.0f32, 1e4, 1e20, f32::MAX, f32::INFINITY] {
            for f in [gelu, gelu_tanh, silu, relu] {
                assert_eq!((f(x), f(-x)), (x, 0.0), "{x}");
            }
            assert_eq!((sigmoid(x), sigmoid(-1000.0f32)), (1.0, 0.0));
        }
        for f in [gelu, gelu_tanh, silu, sigmoid, relu] {
            assert!(f(f64::NAN).is_nan());
            assert!(f(1e300).is_finite() && f(-1e300).is_finite());
        }
    }
}
