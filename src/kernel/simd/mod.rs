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
use std::cell::Cell;
use std::thread::LocalKey;

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
    /// Lane by lane, `yes` where `self < other`, else `no`.
    unsafe fn if_less(self, other: Self, yes: Self, no: Self) -> Self;
    /// 2ⁿ of whole numbers n whose power is a normal number.
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
    /// The calling thread's spare memory.
    fn spare() -> &'static LocalKey<Cell<Vec<Self>>>;
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

            fn spare() -> &'static LocalKey<Cell<Vec<Self>>> {
                thread_local!(static SPARE: Cell<Vec<$T>> = const { Cell::new(Vec::new()) });
                &SPARE
            }
        }
    };
}
lanes!(f32, Portable<f32, 4>, std::arch::x86_64::__m256);
lanes!(f64, Portable<f64, 2>, std::arch::x86_64::__m256d);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_set_is_one_of_them() {
        assert_eq!(Isa::all().last(), Some(&Isa::best()));
    }
}
