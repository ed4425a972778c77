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
pub(crate) mod halves;
mod portable;

use super::exp::Exp;
use super::math::Special;
#[cfg(target_arch = "x86_64")]
use super::tiles;
use crate::element::{Float, Real};
use half::{bf16, f16};
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
    /// AVX-512, and products of bfloat16 in tiles.
    #[cfg(target_arch = "x86_64")]
    Tiles,
}

impl Isa {
    /// The fastest there is.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if avx512::detected() {
            return Isa(if tiles::detected() { Kind::Tiles } else { Kind::Avx512 });
        } else if avx2::detected() {
            return Isa(Kind::Avx2);
        }
        Isa(Kind::Portable)
    }

    /// Whether it has tiles, which multiply bfloat16 ([`tiles`]).
    pub(crate) fn has_tiles(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.0 == Kind::Tiles;
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Every one there is.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Isa(Kind::Portable), Isa(Kind::Wide)];
        #[cfg(target_arch = "x86_64")]
        for (detected, kind) in [
            (avx2::detected(), Kind::Avx2),
            (avx512::detected(), Kind::Avx512),
            (avx512::detected() && tiles::detected(), Kind::Tiles),
        ] {
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
/// which has an [`Isa`] to show. `load` and `store` also need `LANES` valid elements, aligned as
/// elements are, not as vectors.
pub trait Vector: Copy {
    type Scalar: Real;
    const LANES: usize;
    /// The most rows of two vectors that a product can keep in registers.
    const ROWS: usize;

    unsafe fn load(from: *const Self::Scalar) -> Self;
    unsafe fn store(self, to: *mut Self::Scalar);
    /// `LANES` numbers of 16 bits, each as it is.
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: the caller's.
        unsafe { load_each(from) }
    }
    /// As [`load_f16`](Self::load_f16).
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: the caller's.
        unsafe { load_each(from) }
    }
    /// The nearest numbers of 16 bits, of two the even one.
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut f16) {
        // SAFETY: the caller's.
        unsafe { store_each(self, to) }
    }
    /// As [`store_f16`](Self::store_f16).
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut bf16) {
        // SAFETY: the caller's.
        unsafe { store_each(self, to) }
    }
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

/// The portable way from numbers of 16 bits, for sets without instructions for it and for f64, whose
/// vectors are never asked.
///
/// # Safety
///
/// As [`Vector::load`].
#[inline(always)]
unsafe fn load_each<E: Float, V: Vector>(from: *const E) -> V {
    let mut lanes = [V::Scalar::default(); MAX_LANES];
    for (i, lane) in lanes[..V::LANES].iter_mut().enumerate() {
        // SAFETY: the caller vouches for `LANES` elements.
        *lane = V::Scalar::from_f64(unsafe { from.add(i).read() }.to_f64());
    }
    // SAFETY: the caller's; no vector has more lanes.
    unsafe { V::load(lanes.as_ptr()) }
}

/// Likewise to numbers of 16 bits.
///
/// # Safety
///
/// As [`Vector::store`].
#[inline(always)]
unsafe fn store_each<E: Float, V: Vector>(vector: V, to: *mut E) {
    // SAFETY: the caller's.
    let lanes = unsafe { elements::lanes(vector) };
    for (i, lane) in lanes[..V::LANES].iter().enumerate() {
        // SAFETY: the caller vouches for `LANES` elements.
        unsafe { to.add(i).write(E::from_f64(lane.to_f64())) }
    }
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
                    Kind::Avx512 | Kind::Tiles => unsafe {
                        avx512::run::<x86_64::$avx512, K>(kernel)
                    },
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

    /// Numbers of 16 bits to vectors and back.
    struct Halves<'a> {
        numbers: &'a [f32],
    }

    impl Kernel<f32> for Halves<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = f32>>(self) {
            fn same<E: Float<Wide = f32>, V: Vector<Scalar = f32>>(
                numbers: &[f32],
                from_bits: impl Fn(u16) -> E,
            ) {
                let mut wide = [0f32; MAX_LANES];
                let is = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                let all: Vec<E> = (0..=u16::MAX).map(from_bits).collect();
                for bits in all.chunks(V::LANES) {
                    // SAFETY: the caller vouches for the instruction set, both have `LANES` numbers.
                    unsafe { E::load::<V>(bits.as_ptr()).store(wide.as_mut_ptr()) };
                    for (x, y) in wide.iter().zip(bits) {
                        assert!(is(*x, y.wide()), "{x} {y:?}");
                    }
                }
                let mut narrow = [E::default(); MAX_LANES];
                for numbers in numbers.chunks_exact(V::LANES) {
                    // SAFETY: likewise.
                    unsafe { E::store(V::load(numbers.as_ptr()), narrow.as_mut_ptr()) };
                    for (x, y) in narrow.iter().zip(numbers) {
                        assert!(is(x.wide(), E::narrow(*y).wide()), "{y:e} {x:?}");
                    }
                }
            }
            same::<f16, V>(self.numbers, f16::from_bits);
            same::<bf16, V>(self.numbers, bf16::from_bits);
        }
    }

    #[test]
    fn numbers_of_16_bits_are_converted_and_rounded_alike_by_every_set() {
        let numbers = halves::tests::hard_numbers();
        for isa in Isa::all() {
            f32::vectorized(isa, Halves { numbers: &numbers });
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
