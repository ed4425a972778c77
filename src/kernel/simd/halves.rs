//! Numbers of 16 bits, from and to f32, one at a time: the portable way, without a branch, so that the
//! compiler makes vectors of it. It is the twin of the instructions that other sets have.
//!
//! bf16 is the upper half of an f32. f16 has a sign, five bits of exponent (bias 15) and ten of mantissa;
//! f32 has eight (bias 127) and 23.

/// The bits of an f32 that hold its sign.
const SIGN: u32 = 1 << 31;
/// What the exponents of f32 exceed those of f16 by, in its place.
const BIAS: u32 = (127 - 15) << 23;
/// The bits of an infinite f32.
const INFINITE: u32 = 255 << 23;

#[inline(always)]
pub(crate) fn wide_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest, of two the even one.
#[inline(always)]
pub(crate) fn narrow_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    // Half of the last place that stays, and where that place is 1 the whole half: a tie goes up then.
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    // A NaN whose digits all lie below would become infinite.
    let bits = if bits & !SIGN > INFINITE { bits | 1 << 22 } else { rounded };
    upper(bits)
}

#[inline(always)]
pub(crate) fn wide_f16(bits: u16) -> f32 {
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    // Below the least normal number the mantissa is a multiple of 2⁻²⁴: as the digits of 2⁻¹⁴ + it, less
    // that.
    let least = BIAS + (1 << 23);
    let small = (f32::from_bits(magnitude + least) - f32::from_bits(least)).to_bits();
    let normal = magnitude + BIAS;
    let exponent = magnitude & (31 << 23);
    let finite = if exponent == 0 { small } else { normal };
    f32::from_bits(sign | if exponent == 31 << 23 { normal + BIAS } else { finite })
}

/// The nearest, of two the even one.
#[inline(always)]
pub(crate) fn narrow_f16(x: f32) -> u16 {
    let (sign, magnitude) = (x.to_bits() & SIGN, x.to_bits() & !SIGN);
    // A number below the least normal one, added to 1/2, is rounded to a multiple of 2⁻²⁴ by the sum.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let rounded = magnitude.wrapping_sub(BIAS).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    let finite = if magnitude < BIAS + (1 << 23) { small } else { rounded };
    let infinite = if magnitude > INFINITE { 0x7e00 } else { 0x7c00 };
    let magnitude = if magnitude >= BIAS + (31 << 23) { infinite } else { finite };
    upper(sign | magnitude << 16)
}

/// The upper 16 bits.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "16 bits are left")]
fn upper(bits: u32) -> u16 {
    (bits >> 16) as u16
}

/// The f32 next to `x` on either side whose last bit is 1, unless `x` is one itself: rounded once more, to
/// a type with at least two digits fewer, it gives what `x` itself would.
#[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is asked for")]
pub(crate) fn rounded_to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() || near.to_bits() & 1 == 1 {
        return near;
    }
    let bits = near.to_bits();
    f32::from_bits(if back.abs() > x.abs() { bits - 1 } else { bits + 1 })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn every_half_number_is_what_the_standard_says() {
        for bits in 0..=u16::MAX {
            let [f, b] =
                [f16::from_bits(bits).to_f32_const(), bf16::from_bits(bits).to_f32_const()];
            let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            assert!(same(wide_f16(bits), f), "{bits:#x}: {} {f}", wide_f16(bits));
            assert!(same(wide_bf16(bits), b), "{bits:#x}: {} {b}", wide_bf16(bits));
        }
    }

    /// f32 around every half number and every middle between two, and what lies anywhere.
    pub(in crate::kernel::simd) fn hard_numbers() -> Vec<f32> {
        let mut hard = Vec::new();
        for bits in 0..=u16::MAX {
            let (a, b) = (wide_f16(bits), wide_f16(bits.wrapping_add(1)));
            for x in [a, a / 2.0 + b / 2.0, wide_bf16(bits)] {
                let bits = x.to_bits();
                hard.extend([bits, bits.wrapping_add(1), bits.wrapping_sub(1)].map(f32::from_bits));
            }
            let middle = u32::from(bits) << 16 | 0x8000;
            hard.extend([middle - 1, middle, middle + 1].map(f32::from_bits));
        }
        let mut bits = 1u32;
        hard.extend((0..100_000).map(|_| {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(bits)
        }));
        hard
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest_and_of_two_to_the_even_one() {
        for x in hard_numbers() {
            let (f, b) = (f16::from_f32_const(x), bf16::from_f32_const(x));
            if x.is_nan() {
                assert!(f16::from_bits(narrow_f16(x)).is_nan(), "{:#x}", x.to_bits());
                assert!(bf16::from_bits(narrow_bf16(x)).is_nan(), "{:#x}", x.to_bits());
                continue;
            }
            assert_eq!(narrow_f16(x), f.to_bits(), "{x:e} {:#x}", x.to_bits());
            assert_eq!(narrow_bf16(x), b.to_bits(), "{x:e} {:#x}", x.to_bits());
        }
    }

    #[test]
    fn from_f64_there_is_one_rounding() {
        // Just above a middle between two numbers of 11 digits, by less than f32 can tell.
        let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16::from_bits(narrow_f16(x as f32)).to_f64(), 1.0);
        let up = 1.0 + 2f64.powi(-10);
        assert_eq!(f16::from_bits(narrow_f16(rounded_to_odd(x))).to_f64(), up);
        assert_eq!(f16::from_bits(narrow_f16(rounded_to_odd(-x))).to_f64(), -up);
        let x = 1.0 + 3.0 * 2f64.powi(-8) - 2f64.powi(-40);
        let down = 1.0 + 2f64.powi(-7);
        assert_eq!(bf16::from_bits(narrow_bf16(rounded_to_odd(x))).to_f64(), down);
        for (x, expected) in [(1e300, f32::INFINITY), (-1e-300, -0.0), (0.5, 0.5)] {
            assert_eq!(wide_f16(narrow_f16(rounded_to_odd(x))).to_bits(), expected.to_bits());
        }
    }
}
