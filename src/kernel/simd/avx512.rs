//! AVX-512: 32 registers of 512 bits. Twenty-four hold a product's sums (twelve rows of two vectors),
//! two the right-hand row, one the left-hand number.
//!
//! The foundation (F) is enough for all of it; AVX2, FMA and F16C are named because the compiler takes
//! them for granted wherever F is.

use super::avx2::intrinsics;
use super::{Kernel, Vector};
use half::{bf16, f16};
use std::arch::x86_64::*;

pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

/// # Safety
///
/// The processor must have AVX-512F, AVX2, FMA and F16C.
#[target_feature(enable = "avx512f,avx2,fma,f16c")]
pub(super) unsafe fn run<V: Vector, K: Kernel<V::Scalar>>(kernel: K) -> K::Output {
    // SAFETY: the caller vouches for the processor.
    unsafe { kernel.run::<V>() }
}

intrinsics!(
    __m512,
    f32,
    16,
    12,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_div_ps,
    _mm512_fmadd_ps,
    _mm512_max_ps,
    _mm512_min_ps,
    if_less_ps,
    power_of_two_ps,
    transpose_ps,
    load_f16,
    store_f16,
    load_bf16,
    store_bf16
);
intrinsics!(
    __m512d,
    f64,
    8,
    12,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_set1_pd,
    _mm512_add_pd,
    _mm512_sub_pd,
    _mm512_mul_pd,
    _mm512_div_pd,
    _mm512_fmadd_pd,
    _mm512_max_pd,
    _mm512_min_pd,
    if_less_pd,
    power_of_two_pd,
    transpose_pd
);

#[inline(always)]
unsafe fn if_less_ps(a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
    // SAFETY: the caller vouches for AVX-512F.
    unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes) }
}

#[inline(always)]
unsafe fn if_less_pd(a: __m512d, b: __m512d, yes: __m512d, no: __m512d) -> __m512d {
    // SAFETY: the caller vouches for AVX-512F.
    unsafe { _mm512_mask_blend_pd(_mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b), no, yes) }
}

/// The lowest bits moved to the exponent.
#[inline(always)]
unsafe fn power_of_two_ps(n: __m512) -> __m512 {
    // SAFETY: the caller vouches for AVX-512F.
    unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(n))) }
}

/// As above.
#[inline(always)]
unsafe fn power_of_two_pd(n: __m512d) -> __m512d {
    // SAFETY: the caller vouches for AVX-512F.
    unsafe { _mm512_castsi512_pd(_mm512_slli_epi64::<52>(_mm512_castpd_si512(n))) }
}

#[inline(always)]
unsafe fn load_f16(from: *const f16) -> __m512 {
    // SAFETY: the caller vouches for AVX-512F and for the numbers.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
}

#[inline(always)]
unsafe fn store_f16(x: __m512, to: *mut f16) {
    // SAFETY: the caller vouches for AVX-512F and for the room.
    unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)) }
}

#[inline(always)]
unsafe fn load_bf16(from: *const bf16) -> __m512 {
    // SAFETY: the caller vouches for AVX-512F and for the numbers.
    unsafe {
        let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
    }
}

/// As [`narrow_bf16`](super::halves::narrow_bf16), step by step. The instruction that some processors have
/// for it makes 0 of numbers below the least normal one.
#[inline(always)]
unsafe fn store_bf16(x: __m512, to: *mut bf16) {
    // SAFETY: the caller vouches for AVX-512F and for the room.
    unsafe {
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
        let rounded = _mm512_add_epi32(bits, half);
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let number = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(1 << 22));
        let upper = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(number));
        _mm256_storeu_si256(to.cast(), upper);
    }
}

/// Four columns at a time: a register takes them from every fourth row, so that the four registers'
/// blocks of 4 × 4 are transposed in their places.
///
/// # Safety
///
/// The processor has AVX-512F; both blocks are valid, 16 × 16.
#[inline(always)]
unsafe fn transpose_ps(from: *const f32, row: usize, to: *mut f32, to_row: usize) {
    // SAFETY: the caller's.
    unsafe {
        for quarter in 0..4 {
            let (from, to) = (from.add(4 * quarter), to.add(4 * quarter * to_row));
            let a = quarters_ps(from, 4 * row);
            let b = quarters_ps(from.add(row), 4 * row);
            let c = quarters_ps(from.add(2 * row), 4 * row);
            let d = quarters_ps(from.add(3 * row), 4 * row);
            let (ab_low, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            _mm512_storeu_ps(to, _mm512_shuffle_ps::<0x44>(ab_low, cd_low));
            _mm512_storeu_ps(to.add(to_row), _mm512_shuffle_ps::<0xee>(ab_low, cd_low));
            _mm512_storeu_ps(to.add(2 * to_row), _mm512_shuffle_ps::<0x44>(ab_high, cd_high));
            _mm512_storeu_ps(to.add(3 * to_row), _mm512_shuffle_ps::<0xee>(ab_high, cd_high));
        }
    }
}

/// Likewise, two columns at a time.
///
/// # Safety
///
/// The processor has AVX-512F; both blocks are valid, 8 × 8.
#[inline(always)]
unsafe fn transpose_pd(from: *const f64, row: usize, to: *mut f64, to_row: usize) {
    // SAFETY: the caller's.
    unsafe {
        for quarter in 0..4 {
            let (from, to) = (from.add(2 * quarter), to.add(2 * quarter * to_row));
            let a = quarters_pd(from, 2 * row);
            let b = quarters_pd(from.add(row), 2 * row);
            _mm512_storeu_pd(to, _mm512_unpacklo_pd(a, b));
            _mm512_storeu_pd(to.add(to_row), _mm512_unpackhi_pd(a, b));
        }
    }
}

/// Four times four numbers, each four `apart` from the last.
#[inline(always)]
unsafe fn quarters_ps(from: *const f32, apart: usize) -> __m512 {
    // SAFETY: the caller vouches for AVX-512F and for the numbers.
    unsafe {
        let four = |i: usize| _mm_loadu_ps(from.add(i * apart));
        let two = _mm512_insertf32x4::<1>(_mm512_castps128_ps512(four(0)), four(1));
        _mm512_insertf32x4::<3>(_mm512_insertf32x4::<2>(two, four(2)), four(3))
    }
}

/// Four times two numbers, each two `apart` from the last.
#[inline(always)]
unsafe fn quarters_pd(from: *const f64, apart: usize) -> __m512d {
    // SAFETY: the caller vouches for AVX-512F and for the numbers; only their bits are moved.
    unsafe { _mm512_castps_pd(quarters_ps(from.cast(), 2 * apart)) }
}
