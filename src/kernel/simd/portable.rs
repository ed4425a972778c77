//! Vectors for any processor: arrays in loops of a fixed length, which the compiler turns into vector
//! instructions where they are as wide as the registers that all x86-64 processors and most others
//! have. With other widths and numbers of rows they stand in for other sets in the tests.
//! Products are rounded before they are added: without an instruction for it, a fused product costs
//! a function call.

use super::Vector;
use crate::element::Real;

#[derive(Clone, Copy)]
pub(super) struct Portable<R, const N: usize, const ROWS: usize>([R; N]);

impl<R: Real, const N: usize, const ROWS: usize> Portable<R, N, ROWS> {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(R, R) -> R) -> Self {
        Portable(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl<R: Real + Bits, const N: usize, const ROWS: usize> Vector for Portable<R, N, ROWS> {
    type Scalar = R;
    const LANES: usize = N;
    const ROWS: usize = ROWS;

    #[inline(always)]
    unsafe fn load(from: *const R) -> Self {
        // SAFETY: the caller vouches for `LANES` elements; an array is aligned as its elements are.
        Portable(unsafe { from.cast::<[R; N]>().read() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut R) {
        // SAFETY: as for `load`.
        unsafe { to.cast::<[R; N]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(x: R) -> Self {
        Portable([x; N])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        self.zip(factor, |a, b| a * b).zip(term, |ab, c| ab + c)
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const R) {}
    #[inline(always)]
    unsafe fn if_less(self, other: Self, yes: Self, no: Self) -> Self {
        Portable(std::array::from_fn(|i| if self.0[i] < other.0[i] { yes.0[i] } else { no.0[i] }))
    }
    #[inline(always)]
    unsafe fn transpose(from: *const R, row: usize, to: *mut R, to_row: usize) {
        for i in 0..N {
            for j in 0..N {
                // SAFETY: the caller vouches for both blocks.
                unsafe { *to.add(j * to_row + i) = *from.add(i * row + j) }
            }
        }
    }
    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        Portable(self.0.map(Bits::power_of_two))
    }
}

/// A number whose bits can be set.
pub(super) trait Bits {
    /// The lowest bits moved to the exponent.
    fn power_of_two(self) -> Self;
}

impl Bits for f32 {
    #[inline(always)]
    fn power_of_two(self) -> f32 {
        f32::from_bits(self.to_bits() << 23)
    }
}

impl Bits for f64 {
    #[inline(always)]
    fn power_of_two(self) -> f64 {
        f64::from_bits(self.to_bits() << 52)
    }
}
