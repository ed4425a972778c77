//! eˣ in a form that vectorizes, within 2 units in the last place over the whole range.
//!
//! x = n · ln 2 + r with n whole and |r| ≤ ln 2 / 2, where ln 2 is subtracted in two parts so that r
//! keeps its digits; eʳ is a polynomial, and 2ⁿ is multiplied in two halves: so the result rounds
//! once where it is subnormal, and overflows to infinity by itself. Arguments are first held to a
//! range at whose ends the result is 0 and ∞ already; NaN passes through.

use super::simd::Vector;

/// The numbers that the algorithm needs of a type.
pub trait Exp: Sized + 'static {
    const LOW: Self;
    const HIGH: Self;
    /// An x whose n is one below the least whose 2ⁿ is a normal number.
    const LOW_NEGATIVE: Self;
    const LOG2_E: Self;
    /// The first digits of ln 2, few enough that n times them is exact.
    const LN_2_HIGH: Self;
    /// ln 2 less those.
    const LN_2_LOW: Self;
    /// Adding 1.5 · 2ᵈ, d the digits of the type, leaves none for the fraction: subtracting it again
    /// rounds to whole. With the bias of the exponent added to that, the lowest bits of n + `ROUND` are
    /// the exponent of 2ⁿ.
    const ROUND: Self;
    const HALF: Self;
    const ZERO: Self;
    const ONE: Self;
    /// From the highest power down to r².
    const COEFFICIENTS: &[Self];
    /// The greatest n whose 2ⁿ is not a normal number.
    const LOW_EXPONENT: Self;
    /// Of 2ʳ, from the highest power down to 1.
    const POWERS: &[Self];
}

/// The coefficients give the least relative error with 1 + r for the start, 3·10⁻⁹, and those of 2ʳ for
/// |r| ≤ 1/2 with 1 as the first, 2·10⁻⁹; the first part of ln 2 is that of Cephes' expf.
#[allow(clippy::excessive_precision, reason = "as fitted")]
impl Exp for f32 {
    const LOW: f32 = -104.0;
    const HIGH: f32 = 89.0;
    const LOW_NEGATIVE: f32 = -88.0;
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN_2_HIGH: f32 = 0.693_359_375;
    const LN_2_LOW: f32 = -2.121_944_40e-4;
    const ROUND: f32 = 12_582_912.0 + 127.0;
    const HALF: f32 = 0.5;
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const COEFFICIENTS: &[f32] = &[
        1.381_432_036_1e-3,
        8.368_851_085_4e-3,
        4.166_840_108_8e-2,
        1.666_651_952_4e-1,
        4.999_999_337_3e-1,
    ];
    const LOW_EXPONENT: f32 = -127.0;
    const POWERS: &[f32] = &[
        1.535_336_195_9e-4,
        1.339_887_501_7e-3,
        9.618_436_917_7e-3,
        5.550_332_367_4e-2,
        2.402_264_773_8e-1,
        6.931_471_824_6e-1,
        1.0,
    ];
}

/// The coefficients are 1/13! to 1/2!, and times powers of ln 2; the parts of ln 2 those of fdlibm.
#[allow(clippy::excessive_precision, reason = "as published")]
impl Exp for f64 {
    const LOW: f64 = -746.0;
    const HIGH: f64 = 710.0;
    const LOW_NEGATIVE: f64 = -709.0;
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    const LN_2_HIGH: f64 = 6.931_471_803_691_238_164_90e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_700_02e-10;
    const ROUND: f64 = 6_755_399_441_055_744.0 + 1023.0;
    const HALF: f64 = 0.5;
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const COEFFICIENTS: &[f64] = &[
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
    ];
    const LOW_EXPONENT: f64 = -1023.0;
    const POWERS: &[f64] = &[
        1.369_148_885_390_412_41e-12,
        2.567_843_599_348_819_58e-11,
        4.445_538_271_870_810_07e-10,
        7.054_911_620_801_120_89e-9,
        1.017_808_600_923_969_60e-7,
        1.321_548_679_014_430_53e-6,
        1.525_273_380_405_983_77e-5,
        1.540_353_039_338_160_61e-4,
        1.333_355_814_642_844_11e-3,
        9.618_129_107_628_476_88e-3,
        5.550_410_866_482_157_62e-2,
        2.402_265_069_591_006_94e-1,
        std::f64::consts::LN_2,
        1.0,
    ];
}

/// eˣ lane by lane.
///
/// # Safety
///
/// The processor must have the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn exp<V: Vector<Scalar: Exp>>(x: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        // Both give x where that is NaN.
        let x = V::splat(V::Scalar::HIGH).min(V::splat(V::Scalar::LOW).max(x));
        let round = V::splat(V::Scalar::ROUND);
        let n = x.mul_add(V::splat(V::Scalar::LOG2_E), round).sub(round);
        let half = n.mul_add(V::splat(V::Scalar::HALF), round);
        let rest = n.sub(half.sub(round)).add(round);
        fraction(x, n).mul(half.power_of_two()).mul(rest.power_of_two())
    }
}

/// eˣ lane by lane for x ≤ 0, in fewer steps: where the result would be subnormal it may be 0.
///
/// # Safety
///
/// The processor must have the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn exp_of_negative<V: Vector<Scalar: Exp>>(x: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        // Further down 2ⁿ is 0, and so is all that it multiplies. NaN passes through.
        let x = V::splat(V::Scalar::LOW_NEGATIVE).max(x);
        let round = V::splat(V::Scalar::ROUND);
        let shifted = x.mul_add(V::splat(V::Scalar::LOG2_E), round);
        fraction(x, shifted.sub(round)).mul(shifted.power_of_two())
    }
}

/// 2ˣ lane by lane for x ≤ 0, of several vectors in step: 0 where the result would be less than the
/// normal numbers, or a number near their end. Half the work of [`exp_of_negative`]: x less its
/// nearest whole number is exact.
///
/// # Safety
///
/// The processor must have the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn exp2_of_negative<V: Vector<Scalar: Exp>, const N: usize>(x: [V; N]) -> [V; N] {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let round = V::splat(V::Scalar::ROUND);
        // The power of the low end is 0: its biased exponent is. Gives x where that is NaN.
        let low = V::splat(V::Scalar::LOW_EXPONENT);
        let x = x.map(|x| low.max(x));
        let shifted = x.map(|x| x.add(round));
        let mut r = x;
        r.iter_mut().zip(shifted).for_each(|(r, shifted)| *r = r.sub(shifted.sub(round)));
        let mut sums = [V::splat(V::Scalar::POWERS[0]); N];
        for &power in &V::Scalar::POWERS[1..] {
            let power = V::splat(power);
            sums.iter_mut().zip(r).for_each(|(sum, r)| *sum = sum.mul_add(r, power));
        }
        sums.iter_mut().zip(shifted).for_each(|(sum, n)| *sum = sum.mul(n.power_of_two()));
        sums
    }
}

/// eʳ for r = x − n · ln 2.
#[inline(always)]
unsafe fn fraction<V: Vector<Scalar: Exp>>(x: V, n: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let r = n.mul_add(V::splat(-V::Scalar::LN_2_HIGH), x);
        let r = n.mul_add(V::splat(-V::Scalar::LN_2_LOW), r);
        // Pairs of coefficients first: shorter to wait for than one after the other.
        let square = r.mul(r);
        let (odd, pairs) = V::Scalar::COEFFICIENTS.as_rchunks::<2>();
        let mut sum = V::splat(odd.first().copied().unwrap_or(V::Scalar::ZERO));
        for (i, &[higher, lower]) in pairs.iter().enumerate() {
            let pair = V::splat(higher).mul_add(r, V::splat(lower));
            sum = if i == 0 && odd.is_empty() { pair } else { sum.mul_add(square, pair) };
        }
        sum.mul_add(square, r.add(V::splat(V::Scalar::ONE)))
    }
}

#[cfg(test)]
mod tests {
    use super::{exp, exp_of_negative, exp2_of_negative};
    use crate::element::Real;
    use crate::kernel::simd::{Isa, Kernel, Lanes, MAX_LANES, Vector};
    use crate::kernel::testing::Rng;

    struct Each<'a, R>(&'a mut [R]);

    impl<R: Real> Kernel<R> for Each<'_, R> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = R>>(self) {
            for x in self.0.chunks_exact_mut(V::LANES) {
                // SAFETY: the caller vouches for the instruction set, the chunk has `LANES` elements.
                unsafe { exp(V::load(x.as_ptr())).store(x.as_mut_ptr()) }
            }
        }
    }

    /// The distance in units of the last place of the result, subnormal or not.
    fn ulps(actual: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        let unit = f64::from(rounded.next_up()) - f64::from(rounded);
        (f64::from(actual) - exact).abs() / unit
    }

    /// Between the arguments that are tried, in their bits.
    const STEP: u32 = if cfg!(debug_assertions) { 99_991 } else { 997 };

    #[test]
    fn exp_is_within_2_ulp_over_the_whole_range() {
        for isa in Isa::all() {
            let mut worst = 0f64;
            for base in (0..=u32::MAX).step_by(MAX_LANES * STEP as usize) {
                let x: [f32; MAX_LANES] =
                    std::array::from_fn(|i| f32::from_bits(base.wrapping_add(i as u32 * STEP)));
                let mut y = x;
                f32::vectorized(isa, Each(&mut y));
                for (&x, &y) in x.iter().zip(&y) {
                    let exact = f64::from(x).exp();
                    match exact as f32 {
                        exact if exact.is_nan() => assert!(y.is_nan(), "{x} {y}"),
                        f32::INFINITY => assert!(y == f32::INFINITY, "{x} {y}"),
                        _ => worst = worst.max(ulps(y, exact)),
                    }
                }
            }
            assert!(worst <= 2.0, "{isa:?}: {worst}");
        }
    }

    #[test]
    fn exp_has_its_special_values() {
        for isa in Isa::all() {
            let mut x = [f32::NAN; MAX_LANES];
            x[..8].copy_from_slice(&[
                0.0,
                -0.0,
                f32::NEG_INFINITY,
                f32::INFINITY,
                -104.5,
                -1e30,
                89.0,
                88.722_83,
            ]);
            f32::vectorized(isa, Each(&mut x));
            assert_eq!(x[..7], [1.0, 1.0, 0.0, f32::INFINITY, 0.0, 0.0, f32::INFINITY]);
            assert!(x[7].is_finite());
            assert!(x[8..].iter().all(|x| x.is_nan()));
        }
    }

    #[test]
    fn exp_of_f64_agrees_with_the_standard_library() {
        let mut rng = Rng::new(12);
        for isa in Isa::all() {
            for _ in 0..5_000 {
                let x: [f64; MAX_LANES] = std::array::from_fn(|_| rng.unit() * 1500.0 - 770.0);
                let mut y = x;
                f64::vectorized(isa, Each(&mut y));
                for (x, y) in x.iter().zip(y) {
                    let exact = x.exp();
                    let unit = exact.next_up() - exact;
                    assert!(y == exact || (y - exact).abs() <= 2.0 * unit, "{x} {y} {exact}");
                }
            }
            let mut x = [f64::NAN; MAX_LANES];
            x[..3].copy_from_slice(&[0.0, f64::NEG_INFINITY, f64::INFINITY]);
            f64::vectorized(isa, Each(&mut x));
            assert_eq!(x[..3], [1.0, 0.0, f64::INFINITY]);
            assert!(x[3..].iter().all(|x| x.is_nan()));
        }
    }

    struct EachNegative<'a>(&'a mut [f32]);

    impl Kernel<f32> for EachNegative<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = f32>>(self) {
            for x in self.0.chunks_exact_mut(V::LANES) {
                // SAFETY: as for `Each`.
                unsafe { exp_of_negative(V::load(x.as_ptr())).store(x.as_mut_ptr()) }
            }
        }
    }

    #[test]
    fn exp_of_negative_arguments_is_the_same_down_to_subnormal_results() {
        for isa in Isa::all() {
            let mut x: Vec<f32> = (0..80_000).map(|i| i as f32 * -0.001_25).collect();
            x[8..11].copy_from_slice(&[f32::NEG_INFINITY, f32::NAN, f32::MIN]);
            x[11..15].copy_from_slice(&[-87.33, -87.5, -87.7, -104.0]);
            let (mut all, mut negative) = (x.clone(), x.clone());
            f32::vectorized(isa, Each(&mut all));
            f32::vectorized(isa, EachNegative(&mut negative));
            for ((x, all), negative) in x.iter().zip(all).zip(negative) {
                let same = negative.to_bits() == all.to_bits();
                assert!(same || negative == 0.0 && all < f32::MIN_POSITIVE, "{x} {negative} {all}");
            }
        }
    }

    struct EachPower<'a, R>(&'a mut [R]);

    impl<R: Real> Kernel<R> for EachPower<'_, R> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = R>>(self) {
            for x in self.0.chunks_exact_mut(V::LANES) {
                // SAFETY: as for `Each`.
                unsafe {
                    let [y] = exp2_of_negative([V::load(x.as_ptr())]);
                    y.store(x.as_mut_ptr());
                }
            }
        }
    }

    #[test]
    fn powers_of_two_are_within_2_ulp_down_to_subnormal_results() {
        for isa in Isa::all() {
            let x: Vec<f32> = (0..128_000).map(|i| i as f32 * -0.001_003).collect();
            let mut y = x.clone();
            f32::vectorized(isa, EachPower(&mut y));
            for (&x, y) in x.iter().zip(y) {
                match x < -126.5 {
                    true => assert_eq!(y, 0.0, "{x}"),
                    false => assert!(ulps(y, f64::from(x).exp2()) <= 2.0, "{x} {y}"),
                }
            }
            let x: Vec<f64> = (0..128_000).map(|i| f64::from(i) * -0.008_003).collect();
            let mut y = x.clone();
            f64::vectorized(isa, EachPower(&mut y));
            for (&x, y) in x.iter().zip(y) {
                let exact = x.exp2();
                match x < -1022.5 {
                    true => assert_eq!(y, 0.0, "{x}"),
                    false => assert!((y - exact).abs() <= 2.0 * (exact.next_up() - exact), "{x}"),
                }
            }
            let payload = f32::from_bits(0x7fc0_0001);
            let mut x = [-1.0; MAX_LANES];
            let special = [0.0, -0.0, f32::NEG_INFINITY, f32::MIN, -1e30, f32::NAN, payload];
            x[..7].copy_from_slice(&special);
            f32::vectorized(isa, EachPower(&mut x));
            assert_eq!(x[..5], [1.0, 1.0, 0.0, 0.0, 0.0]);
            assert!(x[5].is_nan() && x[6].is_nan() && x[7] == 0.5);
        }
    }
}
