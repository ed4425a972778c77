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
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod elements;
mod portable;

use super::exp::Exp;
use super::math::Special;
use crate::element::Real;
use portable::Portable;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64;

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    /// As wide as the widest and with as many rows, on any processor.
    #[cfg(test)]
    Wide,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The fastest there is.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if avx512::detected() {
            return Isa(Kind::Avx512);
        } else if avx2::detected() {
            return Isa(Kind::Avx2);
        }
        Isa(Kind::Portable)
    }

    /// Every one there is.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Isa(Kind::Portable), Isa(Kind::Wide)];
        #[cfg(target_arch = "x86_64")]
        for (detected, kind) in [(avx2::detected(), Kind::Avx2), (avx512::detected(), Kind::Avx512)]
        {
            all.extend(detected.then_some(Isa(kind)));
        }
        all
    }

    /// Every one there is; in builds that are not optimized, one of them for each number of a case.
    #[cfg(test)]
    pub(crate) fn tried(case: usize) -> Vec<Self> {
        let all = Self::all();
        if cfg!(debug_assertions) { vec![all[case % all.len()]] } else { all }
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
    unsafe fn div(self, other: Self) -> Self;
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
    /// 2ⁿ of n + [`Exp::ROUND`], for whole n whose power is a normal number, and 0 for the n below the
    /// least of those: the lowest bits hold the exponent as the type has it.
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
pub trait Lanes: Exp + Special + Copy + Default + 'static {
    /// Runs `kernel` with the vectors of `isa`.
    fn vectorized<K: Kernel<Self>>(isa: Isa, kernel: K) -> K::Output;
}

macro_rules! lanes {
    ($T:ty, $portable:ty, $wide:ty, $avx2:ident, $avx512:ident) => {
        impl Lanes for $T {
            fn vectorized<K: Kernel<Self>>(isa: Isa, kernel: K) -> K::Output {
                match isa.0 {
                    // SAFETY: every processor has the portable set.
                    Kind::Portable => unsafe { kernel.run::<$portable>() },
                    #[cfg(test)]
                    // SAFETY: likewise.
                    Kind::Wide => unsafe { kernel.run::<$wide>() },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: `Isa` holds `Avx2` only where the processor was found to have it.
                    Kind::Avx2 => unsafe { avx2::run::<x86_64::$avx2, K>(kernel) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: likewise.
                    Kind::Avx512 => unsafe { avx512::run::<x86_64::$avx512, K>(kernel) },
                }
            }
        }
    };
}
lanes!(f32, Portable<f32, 4, 6>, Portable<f32, 16, 12>, __m256, __m512);
lanes!(f64, Portable<f64, 2, 6>, Portable<f64, 8, 12>, __m256d, __m512d);

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

    /// Every pair of special numbers, at every place in a vector.
    struct Compare;

    impl<R: Real> Kernel<R> for Compare {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = R>>(self) {
            let nan = R::nan();
            let one = R::one();
            let special =
                [-R::infinity(), -one, -R::zero(), R::zero(), one, one + one, R::infinity(), nan];
            let same = |x: R, y: R| {
                x.to_f64().to_bits() == y.to_f64().to_bits() || x.is_nan() && y.is_nan()
            };
            for shift in 0..special.len() {
                for first in 0..special.len() {
                    let at = |i: usize| special[i % special.len()];
                    let a: Vec<R> = (0..V::LANES).map(|i| at(first + i)).collect();
                    let b: Vec<R> = (0..V::LANES).map(|i| at(first + shift + i)).collect();
                    let [yes, no] = [1, 100].map(|base| -> Vec<R> {
                        (0..V::LANES).map(|i| R::from_f64((base + i) as f64)).collect()
                    });
                    let mut out = [vec![nan; V::LANES], vec![nan; V::LANES], vec![nan; V::LANES]];
                    // SAFETY: the caller vouches for the instruction set, all have `LANES` elements.
                    unsafe {
                        let (v, w) = (V::load(a.as_ptr()), V::load(b.as_ptr()));
                        let chosen = v.if_less(w, V::load(yes.as_ptr()), V::load(no.as_ptr()));
                        for (vector, out) in [v.max(w), v.min(w), chosen].into_iter().zip(&mut out)
                        {
                            vector.store(out.as_mut_ptr());
                        }
                    }
                    let [max, min, chosen] = out;
                    for i in 0..V::LANES {
                        let (a, b) = (a[i], b[i]);
                        assert!(same(max[i], if a > b { a } else { b }), "max {a:?} {b:?}");
                        assert!(same(min[i], if a < b { a } else { b }), "min {a:?} {b:?}");
                        assert!(chosen[i] == if a < b { yes[i] } else { no[i] }, "{a:?} < {b:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn comparisons_give_the_second_where_either_is_nan() {
        for isa in Isa::all() {
            f32::vectorized(isa, Compare);
            f64::vectorized(isa, Compare);
        }
    }

    /// Powers of two from the least normal one on, `.0` of them.
    struct Powers(i32);

    impl<R: Real> Kernel<R> for Powers {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = R>>(self) {
            let two = R::from_f64(2.0);
            let mut power = R::min_positive_value();
            for i in 0..self.0 {
                let n = R::from_f64(f64::from(i - self.0 / 2 + 1));
                let mut out = vec![R::zero(); V::LANES];
                // SAFETY: the caller vouches for the instruction set, `out` has `LANES` elements.
                unsafe { V::splat(n + R::ROUND).power_of_two().store(out.as_mut_ptr()) };
                assert!(out.iter().all(|&x| x == power), "2 to the {n:?}");
                power *= two;
            }
        }
    }

    #[test]
    fn powers_of_two_are_exact_down_to_the_least_normal_number() {
        for isa in Isa::all() {
            f32::vectorized(isa, Powers(254));
            f64::vectorized(isa, Powers(2046));
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
