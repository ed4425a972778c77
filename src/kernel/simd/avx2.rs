//! AVX2, FMA and F16C: 16 registers of 256 bits. Twelve hold a product's sums (six rows of two vectors),
//! two the right-hand row, one the left-hand number.

use super::{Kernel, Vector};
use half::{bf16, f16};
use std::arch::x86_64::*;

pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

/// # Safety
///
/// The processor must have AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<V: Vector, K: Kernel<V::Scalar>>(kernel: K) -> K::Output {
    // SAFETY: the caller vouches for the processor.
    unsafe { kernel.run::<V>() }
}

/// A vector whose methods are intrinsics of one instruction each, but for comparisons, powers, transposing and
/// bfloat16.
macro_rules! intrinsics {
    ($V:ty, $R:ty, $lanes:literal, $rows:literal, $load:ident, $store:ident, $splat:ident, $add:ident,
     $sub:ident, $mul:ident, $div:ident, $fma:ident, $max:ident, $min:ident, $if_less:ident, $power:ident, $transpose:ident
     $(, $load_f16:ident, $store_f16:ident, $load_bf16:ident, $store_bf16:ident)?) => {
        // SAFETY, for all blocks here: the caller of a `Vector` method vouches for the instruction
        // set, and of `load` and `store` for the elements; neither asks for alignment.
        impl Vector for $V {
            type Scalar = $R;
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;

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
            unsafe fn div(self, other: Self) -> Self {
                // SAFETY: above.
                unsafe { $div(self, other) }
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
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: above.
                unsafe { $min(self, other) }
            }
            #[inline(always)]
            unsafe fn prefetch(at: *const $R) {
                // SAFETY: above; a prefetch never faults.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
            }
            #[inline(always)]
            unsafe fn if_less(self, other: Self, yes: Self, no: Self) -> Self {
                // SAFETY: above.
                unsafe { $if_less(self, other, yes, no) }
            }
            #[inline(always)]
            unsafe fn transpose(from: *const $R, row: usize, to: *mut $R, to_row: usize) {
                // SAFETY: above; the caller also vouches for both blocks.
                unsafe { $transpose(from, row, to, to_row) }
            }
            #[inline(always)]
            unsafe fn power_of_two(self) -> Self {
                // SAFETY: above.
                unsafe { $power(self) }
            }
            $(
                #[inline(always)]
                unsafe fn load_f16(from: *const f16) -> Self {
                    // SAFETY: above.
                    unsafe { $load_f16(from) }
                }
                #[inline(always)]
                unsafe fn store_f16(self, to: *mut f16) {
                    // SAFETY: above.
                    unsafe { $store_f16(self, to) }
                }
                #[inline(always)]
                unsafe fn load_bf16(from: *const bf16) -> Self {
                    // SAFETY: above.
                    unsafe { $load_bf16(from) }
                }
                #[inline(always)]
                unsafe fn store_bf16(self, to: *mut bf16) {
                    // SAFETY: above.
                    unsafe { $store_bf16(self, to) }
                }
            )?
        }
    };
}
pub(super) use intrinsics;

intrinsics!(
    __m256,
    f32,
    8,
    6,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_div_ps,
    _mm256_fmadd_ps,
    _mm256_max_ps,
    _mm256_min_ps,
    if_less_ps,
    power_of_two_ps,
    transpose_ps,
    load_f16,
    store_f16,
    load_bf16,
    store_bf16
);
intrinsics!(
    __m256d,
    f64,
    4,
    6,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    _mm256_mul_pd,
    _mm256_div_pd,
    _mm256_fmadd_pd,
    _mm256_max_pd,
    _mm256_min_pd,
    if_less_pd,
    power_of_two_pd,
    transpose_pd
);

#[inline(always)]
unsafe fn if_less_ps(a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
    // SAFETY: the caller vouches for AVX2.
    unsafe { _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
}

#[inline(always)]
unsafe fn if_less_pd(a: __m256d, b: __m256d, yes: __m256d, no: __m256d) -> __m256d {
    // SAFETY: the caller vouches for AVX2.
    unsafe { _mm256_blendv_pd(no, yes, _mm256_cmp_pd::<_CMP_LT_OQ>(a, b)) }
}

/// The lowest bits moved to the exponent.
#[inline(always)]
unsafe fn power_of_two_ps(n: __m256) -> __m256 {
    // SAFETY: the caller vouches for AVX2.
    unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(n))) }
}

/// As above.
#[inline(always)]
unsafe fn power_of_two_pd(n: __m256d) -> __m256d {
    // SAFETY: the caller vouches for AVX2.
    unsafe { _mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_castpd_si256(n))) }
}

#[inline(always)]
unsafe fn load_f16(from: *const f16) -> __m256 {
    // SAFETY: the caller vouches for F16C and for the numbers.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
}

#[inline(always)]
unsafe fn store_f16(x: __m256, to: *mut f16) {
    // SAFETY: the caller vouches for F16C and for the room.
    unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)) }
}

#[inline(always)]
unsafe fn load_bf16(from: *const bf16) -> __m256 {
    // SAFETY: the caller vouches for AVX2 and for the numbers.
    unsafe {
        let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
    }
}

/// As [`narrow_bf16`](super::halves::narrow_bf16), step by step.
#[inline(always)]
unsafe fn store_bf16(x: __m256, to: *mut bf16) {
    // SAFETY: the caller vouches for AVX2 and for the room.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
        let rounded = _mm256_castsi256_ps(_mm256_add_epi32(bits, half));
        let nan = _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(1 << 22)));
        let number = _mm256_blendv_ps(rounded, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        let upper = _mm256_srli_epi32::<16>(_mm256_castps_si256(number));
        // Packed within halves of the register, the second of which follow the first.
        let packed = _mm256_permute4x64_epi64::<0x08>(_mm256_packus_epi32(upper, upper));
        _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
    }
}

/// # Safety
///
/// The processor has AVX2; both blocks are valid, 8 × 8.
#[inline(always)]
unsafe fn transpose_ps(from: *const f32, row: usize, to: *mut f32, to_row: usize) {
    // SAFETY: the caller's.
    unsafe {
        for half in 0..2 {
            let (from, to) = (from.add(4 * half), to.add(4 * half * to_row));
            let a = halves_ps(from, 4 * row);
            let b = halves_ps(from.add(row), 4 * row);
            let c = halves_ps(from.add(2 * row), 4 * row);
            let d = halves_ps(from.add(3 * row), 4 * row);
            let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            _mm256_storeu_ps(to, _mm256_shuffle_ps::<0x44>(ab_low, cd_low));
            _mm256_storeu_ps(to.add(to_row), _mm256_shuffle_ps::<0xee>(ab_low, cd_low));
            _mm256_storeu_ps(to.add(2 * to_row), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
            _mm256_storeu_ps(to.add(3 * to_row), _mm256_shuffle_ps::<0xee>(ab_high, cd_high));
        }
    }
}

/// Four numbers from `from` and four from `apart` further on.
#[inline(always)]
unsafe fn halves_ps(from: *const f32, apart: usize) -> __m256 {
    // SAFETY: the caller vouches for AVX2 and for the numbers.
    unsafe {
        let low = _mm256_castps128_ps256(_mm_loadu_ps(from));
        _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(from.add(apart)))
    }
}

/// # Safety
///
/// The processor has AVX2; both blocks are valid, 4 × 4.
#[inline(always)]
unsafe fn transpose_pd(from: *const f64, row: usize, to: *mut f64, to_row: usize) {
    // SAFETY: the caller's.
    unsafe {
        for half in 0..2 {
            let (from, to) = (from.add(2 * half), to.add(2 * half * to_row));
            let a = halves_pd(from, 2 * row);
            let b = halves_pd(from.add(row), 2 * row);
            _mm256_storeu_pd(to, _mm256_unpacklo_pd(a, b));
            _mm256_storeu_pd(to.add(to_row), _mm256_unpackhi_pd(a, b));
        }
    }
}

/// Two numbers from `from` and two from `apart` further on.
#[inline(always)]
unsafe fn halves_pd(from: *const f64, apart: usize) -> __m256d {
    // SAFETY: the caller vouches for AVX2 and for the numbers.
    unsafe {
        let low = _mm256_castpd128_pd256(_mm_loadu_pd(from));
        _mm256_insertf128_pd::<1>(low, _mm_loadu_pd(from.add(apart)))
    }
}
