//! AVX2 and FMA: 16 registers of 256 bits. Twelve hold a product's sums (six rows of two vectors),
//! two the right-hand row, one the left-hand number.

use super::{Kernel, Vector};
use crate::kernel::exp::Exp;
use std::arch::x86_64::*;

pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// # Safety
///
/// The processor must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run<V: Vector, K: Kernel<V::Scalar>>(kernel: K) -> K::Output {
    // SAFETY: the caller vouches for the processor.
    unsafe { kernel.run::<V>() }
}

macro_rules! avx2 {
    ($V:ty, $R:ty, $lanes:literal, $load:ident, $store:ident, $splat:ident, $add:ident, $sub:ident,
     $mul:ident, $fma:ident, $max:ident, $cmp:ident, $blend:ident, $power:ident) => {
        // SAFETY, for all blocks here: the caller of a `Vector` method vouches for the instruction
        // set, and of `load` and `store` for the elements; neither asks for alignment.
        impl Vector for $V {
            type Scalar = $R;
            const LANES: usize = $lanes;
            const ROWS: usize = 6;

            #[inline(always)]
            unsafe fn load(from: *const $R) -> Self {
                // SAFETY: above.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $R) {
                // SAFETY: above.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn splat(x: $R) -> Self {
                // SAFETY: above.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: above.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                // SAFETY: above.
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: above.
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
                // SAFETY: above.
                unsafe { $fma(self, factor, term) }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: above.
                unsafe { $max(self, other) }
            }
            #[inline(always)]
            unsafe fn if_less(self, other: Self, yes: Self, no: Self) -> Self {
                // SAFETY: above.
                unsafe { $blend(no, yes, $cmp::<_CMP_LT_OQ>(self, other)) }
            }
            #[inline(always)]
            unsafe fn power_of_two(self) -> Self {
                // SAFETY: above.
                unsafe { $power(self) }
            }
        }
    };
}
avx2!(
    __m256,
    f32,
    8,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    _mm256_max_ps,
    _mm256_cmp_ps,
    _mm256_blendv_ps,
    power_of_two_ps
);
avx2!(
    __m256d,
    f64,
    4,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    _mm256_mul_pd,
    _mm256_fmadd_pd,
    _mm256_max_pd,
    _mm256_cmp_pd,
    _mm256_blendv_pd,
    power_of_two_pd
);

/// 2ⁿ: adding 1.5 · 2ᵈ, d the digits of the type, puts n into the lowest bits, from where it moves,
/// biased, to the exponent.
#[inline(always)]
unsafe fn power_of_two_ps(n: __m256) -> __m256 {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        let bits = _mm256_castps_si256(_mm256_add_ps(n, _mm256_set1_ps(f32::ROUND)));
        let biased = _mm256_add_epi32(bits, _mm256_set1_epi32(127));
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
    }
}

/// As above.
#[inline(always)]
unsafe fn power_of_two_pd(n: __m256d) -> __m256d {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        let bits = _mm256_castpd_si256(_mm256_add_pd(n, _mm256_set1_pd(f64::ROUND)));
        let biased = _mm256_add_epi64(bits, _mm256_set1_epi64x(1023));
        _mm256_castsi256_pd(_mm256_slli_epi64::<52>(biased))
    }
}
