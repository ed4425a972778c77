//! Sizes as types: [`C<512>`](C) is fixed at compile time, [`Dyn`] is read once at run time.
//!
//! Everything that typenum does for this crate happens below this module.

mod arithmetic;
mod dynamic;
mod table;

pub(crate) use arithmetic::Un;
pub use arithmetic::{
    AtLeast, DivisibleBy, EvenlyInto, HeadDimOf, Known, Measures, Plus, RemDiv, Row, Splits, Times,
    ToC, WindowSize,
};
pub use dynamic::{Dyn, Product, Sum};

use std::fmt::Debug;

/// A size fixed at compile time: `C<512>` is the size 512.
///
/// As a value it is written `C::<512>`, or `C` where the number can be inferred.
///
/// ```
/// use shapeproof::{C, Size, Static};
///
/// assert_eq!(C::<512>.get(), 512);
/// assert_eq!(<C<512> as Static>::N, 512);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct C<const N: usize>;

impl<const N: usize> Debug for C<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{N}")
    }
}

/// A type that stands for one number: what closes [`Size`]. Another crate cannot implement it, because it
/// cannot name the type of its constant.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become a size: the sizes are `C<N>` and those of `dyn_size!`",
    label = "this type cannot be a size",
    note = "every proof rests on one type being one number, so the trait `Size` is closed"
)]
pub trait OneNumber {
    #[doc(hidden)]
    const OURS: Ours;
}

#[diagnostic::do_not_recommend]
impl<const N: usize> OneNumber for C<N> {
    const OURS: Ours = Ours;
}
#[diagnostic::do_not_recommend]
impl<Name> OneNumber for Dyn<'_, Name> {
    const OURS: Ours = Ours;
}
#[diagnostic::do_not_recommend]
impl<A: Size, B: Size> OneNumber for Sum<A, B> {
    const OURS: Ours = Ours;
}
#[diagnostic::do_not_recommend]
impl<A: Size, B: Size> OneNumber for Product<A, B> {
    const OURS: Ours = Ours;
}

mod sealed {
    /// Closes a trait that asks for a constant of this type: another crate cannot name it. A sealed marker
    /// would not do for relations that name an axis: for one of its own it could write an impl.
    #[derive(Debug)]
    pub struct Ours;
}
pub(crate) use sealed::Ours;

/// The number of entries along an axis, as a type: [`C<N>`](C) or [`Dyn`].
///
/// Two values of one size type are the same number. That is what every proof of this crate rests
/// on, so the trait is closed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a size",
    label = "not a size",
    note = "write a compile-time size as `C<512>`; for a run-time size use `dyn_size!`"
)]
pub trait Size: OneNumber + Copy + PartialEq + Debug + Send + Sync {
    /// The number.
    fn get(self) -> usize;
}

/// A size known at compile time, `C<N>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a size known at compile time",
    label = "needs a size like `C<512>`"
)]
pub trait Static: Size + Default + 'static {
    /// The number, as a constant.
    const N: usize;
    /// `[E; N]`, also where N is the outcome of arithmetic.
    type Array<E>: AsRef<[E]> + AsMut<[E]> + IntoIterator<Item = E>;
    /// An array of what `make` returns for 0, 1, … N − 1.
    fn array<E>(make: impl FnMut(usize) -> E) -> Self::Array<E>;
}

#[diagnostic::do_not_recommend]
impl<const N: usize> Size for C<N> {
    fn get(self) -> usize {
        N
    }
}

#[diagnostic::do_not_recommend]
impl<const N: usize> Static for C<N> {
    const N: usize = N;
    type Array<E> = [E; N];
    fn array<E>(make: impl FnMut(usize) -> E) -> [E; N] {
        std::array::from_fn(make)
    }
}
