//! Dividing, multiplying and adding sizes: typenum behind one door.
//!
//! In every trait that asks typenum, `Self` is the DIVISOR's number. While the compiler probes a
//! method call the divisor is still unknown, and an unknown `Self` stops it at once; the other way
//! round it walks typenum's division with a hole in it, a second for one call.

use super::{C, Dyn, Product, Size, Static, Sum};
use crate::error::Result;
use generic_array::{ArrayLength, GenericArray};
use std::ops::{Add, Div, Mul, Rem};
use typenum::{B1, IsGreaterOrEqual, Prod, Quot};

/// `C<N>` to typenum's number: the door.
#[diagnostic::on_unimplemented(
    message = "{Self} is outside the sizes that this crate can divide, multiply or add",
    label = "no arithmetic for this size",
    note = "arithmetic covers 0 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576"
)]
#[doc(hidden)]
pub trait Known: Static {
    // No `ArrayLength` bound here: over the whole table it quadruples the time of a clean build.
    type U;
}

/// typenum's number to `C<N>`: the way back.
#[diagnostic::on_unimplemented(
    message = "the resulting number is not a size that this crate can compute",
    label = "no such size",
    note = "arithmetic covers 0 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576"
)]
#[doc(hidden)]
pub trait ToC {
    type C: Known;
}

pub(crate) type Un<M> = <M as Known>::U;

/// A row of `D` elements, where `D` came out of arithmetic.
///
/// `[E; N]` cannot be written for a computed length on stable Rust; a `GenericArray` can.
pub type Row<E, D> = GenericArray<E, <D as Known>::U>;

/// Model width `M` is a multiple of `H`: the rule that lets `H` heads share it.
///
/// Equation: M = H · Quotient.
///
/// # Compile errors
/// `heads_must_divide_the_model_width`: "C<512> cannot be divided evenly by C<7>".
#[diagnostic::on_unimplemented(
    message = "{Self} cannot be divided evenly by {H}",
    label = "not a multiple, or a size that has no arithmetic",
    note = "arithmetic covers 0 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576"
)]
pub trait DivisibleBy<H>: Known {
    /// M / H.
    type Quotient: Known<U: ArrayLength> + Times<H, Product = Self>;
}

/// The width of one head: `HeadDimOf<C<512>, C<8>>` is `C<64>`.
pub type HeadDimOf<M, H> = <M as DivisibleBy<H>>::Quotient;

/// typenum's division, with the divisor's number as `Self`.
#[doc(hidden)]
pub trait RemDiv<UM> {
    type Rem;
    type Quot;
}

impl<UM: Rem<UH> + Div<UH>, UH> RemDiv<UM> for UH {
    type Rem = <UM as Rem<UH>>::Output;
    type Quot = Quot<UM, UH>;
}

/// Remainder and quotient in this crate's own names, so that no message shows typenum's.
#[doc(hidden)]
pub trait Measures<M> {
    type Remainder: Static;
    type Quotient: Known;
}

impl<const M: usize, const H: usize> Measures<C<M>> for C<H>
where
    C<M>: Known,
    C<H>: Known,
    Un<C<H>>: RemDiv<Un<C<M>>, Rem: ToC, Quot: ToC>,
{
    type Remainder = <<Un<C<H>> as RemDiv<Un<C<M>>>>::Rem as ToC>::C;
    type Quotient = <<Un<C<H>> as RemDiv<Un<C<M>>>>::Quot as ToC>::C;
}

/// [`DivisibleBy`] for two numbers, seen from the divisor.
#[diagnostic::on_unimplemented(
    message = "{M} cannot be divided evenly by {Self}",
    label = "{M} is not a multiple of {Self}"
)]
pub trait EvenlyInto<M>: Sized {
    /// M / Self.
    type Quotient: Known<U: ArrayLength> + Times<Self, Product = M>;
}

#[diagnostic::do_not_recommend]
impl<const M: usize, const H: usize> EvenlyInto<C<M>> for C<H>
where
    C<H>: Measures<C<M>, Remainder = C<0>>,
    <C<H> as Measures<C<M>>>::Quotient: Known<U: ArrayLength> + Times<C<H>, Product = C<M>>,
{
    type Quotient = <C<H> as Measures<C<M>>>::Quotient;
}

#[diagnostic::do_not_recommend]
impl<const M: usize, const H: usize> DivisibleBy<C<H>> for C<M>
where
    C<M>: Known,
    C<H>: Known + EvenlyInto<C<M>>,
{
    type Quotient = <C<H> as EvenlyInto<C<M>>>::Quotient;
}

/// [`DivisibleBy`] seen from the number of heads, for methods whose caller names it
/// (`x.split_heads::<C<8>>()`).
///
/// # Compile errors
/// `split_heads_must_divide_the_width`: "C<512> cannot be divided evenly by C<7>".
#[diagnostic::on_unimplemented(
    message = "{M} cannot be divided evenly by {Self}",
    label = "{M} is not a multiple of {Self}"
)]
pub trait Splits<M>: Static {
    /// M / Self.
    type Part: Known<U: ArrayLength> + Times<Self, Product = M>;
}

#[diagnostic::do_not_recommend]
impl<M: DivisibleBy<H>, H: Static> Splits<M> for H {
    type Part = M::Quotient;
}

/// A window of at least one position: it counts the query's own.
///
/// # Compile errors
/// `window_must_not_be_zero`.
#[diagnostic::on_unimplemented(
    message = "{Self} is no window: a window counts the query's own position, so it is at least 1",
    label = "not a window",
    note = "windows are `C<N>` with an N that has arithmetic: 1 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576; others are made by `try_causal` and `try_two_sided`"
)]
pub trait WindowSize: Static {}

#[diagnostic::do_not_recommend]
impl<const N: usize> WindowSize for C<N> where C<N>: AtLeast<C<1>> {}

/// Self ≥ N. `Self` is the number that a method call may not know yet, where that is only one of them:
/// there the question stops.
#[diagnostic::on_unimplemented(
    message = "{Self} is less than {N}, or one of them has no arithmetic",
    label = "must be at least {N}"
)]
#[doc(hidden)]
pub trait AtLeast<N> {}

#[diagnostic::do_not_recommend]
impl<const M: usize, const N: usize> AtLeast<C<N>> for C<M>
where
    C<M>: Known,
    C<N>: Known,
    Un<C<M>>: IsGreaterOrEqual<Un<C<N>>, Output = B1>,
{
}

/// Multiplies two compile-time sizes.
#[diagnostic::on_unimplemented(
    message = "{Self} times {H} is not a size that this crate can compute",
    label = "no such product",
    note = "arithmetic covers 0 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576; generic code needs the bound `{Self}: Times<{H}>`"
)]
pub trait Times<H>: Static {
    /// Self · H.
    type Product: Known;
}

#[diagnostic::do_not_recommend]
impl<const M: usize, const H: usize> Times<C<H>> for C<M>
where
    C<M>: Known,
    C<H>: Known,
    Un<C<M>>: Mul<Un<C<H>>>,
    Prod<Un<C<M>>, Un<C<H>>>: ToC,
{
    type Product = <Prod<Un<C<M>>, Un<C<H>>> as ToC>::C;
}

/// Adds two sizes: `C + C` is a `C`; with a run-time size in it, a symbolic [`Sum`].
#[diagnostic::on_unimplemented(
    message = "{Self} plus {B} is not a size that this crate can compute",
    label = "no such sum",
    note = "arithmetic covers 0 to 2048, the multiples of 64 up to 16384, and the powers of two up to 1048576; generic code needs the bound `{Self}: Plus<{B}>`"
)]
pub trait Plus<B: Size>: Size {
    /// Self + B.
    type Sum: Size;
    /// The sum as a value.
    ///
    /// # Errors
    /// Where two run-time sizes add up to more than `usize::MAX`.
    fn try_plus(self, b: B) -> Result<Self::Sum>;
}

#[diagnostic::do_not_recommend]
impl<const M: usize, const H: usize> Plus<C<H>> for C<M>
where
    C<M>: Known,
    C<H>: Known,
    Un<C<M>>: Add<Un<C<H>>>,
    typenum::Sum<Un<C<M>>, Un<C<H>>>: ToC,
{
    type Sum = <typenum::Sum<Un<C<M>>, Un<C<H>>> as ToC>::C;
    fn try_plus(self, _: C<H>) -> Result<Self::Sum> {
        Ok(Default::default())
    }
}

macro_rules! symbolic_sum {
    ($([$($generics:tt)*] $A:ty, $B:ty;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> Plus<$B> for $A {
            type Sum = Sum<Self, $B>;
            fn try_plus(self, b: $B) -> Result<Self::Sum> {
                Sum::try_new(self, b)
            }
        }
    )+ };
}
symbolic_sum! {
    ['id, N, B: Size] Dyn<'id, N>, B;
    [X: Size, Y: Size, B: Size] Sum<X, Y>, B;
    [X: Size, Y: Size, B: Size] Product<X, Y>, B;
    ['id, N, const A: usize] C<A>, Dyn<'id, N>;
    [X: Size, Y: Size, const A: usize] C<A>, Sum<X, Y>;
    [X: Size, Y: Size, const A: usize] C<A>, Product<X, Y>;
}
