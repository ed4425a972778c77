//! Vectors of numbers, and the choice of instruction set at run time.
//!
//! A kernel is written once, over any [`Vector`], as a [`Kernel`]. [`Lanes::vectorized`] runs it with
//! the vectors of an instruction set, inside a function that has that set enabled; everything between
//! that function and the instructions is inlined into it. There is one file for each set.
//!
//! An [`Isa`] is the proof that the processor has the set: only [`Isa::best`] and [`Isa::all`] make
//! one, after asking.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;

use super::exp::Exp;
use crate::element::Real;
use portable::Portable;

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// The fastest there is.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if avx2::detected() {
            return Isa(Kind::Avx2);
        }
        Isa(Kind::Portable)
    }

    /// Every one there is.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Isa(Kind::Portable)];
        #[cfg(target_arch = "x86_64")]
        if avx2::detected() {
            all.push(Isa(Kind::Avx2));
        }
        all
    }
}

/// The most lanes that a vector of any set has.
pub(crate) const MAX_LANES: usize = 16;

/// A fixed number of numbers on which an instruction set works at once.
///
/// # Safety
///
/// All methods need the instruction set: they are called from within [`Lanes::vectorized`] alone,
/// which has an [`Isa`] to show. `load` and `store` also need `LANES` valid elements, of any
/// alignment.
pub trait Vector: Copy {
    type Scalar: Real;
    const LANES: usize;
    /// The most rows of two vectors that a product can keep in registers.
    const ROWS: usize;

    unsafe fn load(from: *const Self::Scalar) -> Self;
    unsafe fn store(self, to: *mut Self::Scalar);
    unsafe fn splat(x: Self::Scalar) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self · factor + term`, rounded once where the set can.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The greater of the two; `other` where either is NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// The lesser of the two; `other` where either is NaN.
    unsafe fn min(self, other: Self) -> Self;
    /// Lane by lane, `yes` where `self < other`, else `no`.
    unsafe fn if_less(self, other: Self, yes: Self, no: Self) -> Self;
    /// Asks for the cache line at an address, which may be anywhere, to be fetched.
    unsafe fn prefetch(at: *const Self::Scalar);
    /// Writes the `LANES` × `LANES` block at `from` transposed to `to`. `row` and `to_row` are the
    /// distances from one row to the next; all of both blocks is valid, and they do not overlap.
    unsafe fn transpose(
        from: *const Self::Scalar,
        row: usize,
        to: *mut Self::Scalar,
        to_row: usize,
    );
    /// 2ⁿ of n + [`Exp::ROUND`], for whole n whose power is a normal number: the lowest bits hold n.
    unsafe fn power_of_two(self) -> Self;
}

/// A computation over the vectors of any instruction set.
pub trait Kernel<R> {
    type Output;

    /// Must be `#[inline(always)]`, as must all that it calls with vectors.
    ///
    /// # Safety
    ///
    /// The processor must have the instruction set of `V`.
    unsafe fn run<V: Vector<Scalar = R>>(self) -> Self::Output;
}

/// A number that comes in vectors.
pub trait Lanes: Exp + Copy + Default + 'static {
    /// Runs `kernel` with the vectors of `isa`.
    fn vectorized<K: Kernel<Self>>(isa: Isa, kernel: K) -> K::Output;
}

macro_rules! lanes {
    ($T:ty, $portable:ty, $avx2:ty) => {
        impl Lanes for $T {
            fn vectorized<K: Kernel<Self>>(isa: Isa, kernel: K) -> K::Output {
                match isa.0 {
                    // SAFETY: every processor has the portable set.
                    Kind::Portable => unsafe { kernel.run::<$portable>() },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: `Isa` holds `Avx2` only where the processor was found to have it.
                    Kind::Avx2 => unsafe { avx2::run::<$avx2, K>(kernel) },
                }
            }
        }
    };
}
lanes!(f32, Portable<f32, 4>, std::arch::x86_64::__m256);
lanes!(f64, Portable<f64, 2>, std::arch::x86_64::__m256d);

#[cfg(test)]
mod tests {
    use super::*;

    struct Transpose;

    impl<R: Real> Kernel<R> for Transpose {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = R>>(self) {
            let n = V::LANES;
            let (row, to_row) = (n + 3, n + 1);
            let from: Vec<R> = (0..n * row).map(|i| R::from_f64(i as f64)).collect();
            let mut to = vec![R::zero(); n * to_row];
            // SAFETY: the caller vouches for the instruction set, the buffers have `n` rows.
            unsafe { V::transpose(from.as_ptr(), row, to.as_mut_ptr(), to_row) };
            for i in 0..n {
                for j in 0..n {
                    assert!(to[j * to_row + i] == from[i * row + j]);
                }
            }
        }
    }

    #[test]
    fn blocks_are_transposed() {
        for isa in Isa::all() {
            f32::vectorized(isa, Transpose);
            f64::vectorized(isa, Transpose);
        }
    }

    #[test]
    fn the_best_set_is_one_of_them() {
        assert_eq!(Isa::all().last(), Some(&Isa::best()));
    }
}
