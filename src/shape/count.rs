//! Reshaping with a proven number of elements.

use super::Shape;
use crate::axis::Axis;
use crate::size::{Known, Static, ToC, Un};
use std::ops::Mul;
use typenum::{Prod, U1};

/// The number of elements as a typenum number, for shapes of static sizes.
#[diagnostic::on_unimplemented(
    message = "the number of elements of {Self} is not known at compile time",
    label = "a run-time size, or one outside of the arithmetic; `try_reshape` checks the count at run time"
)]
#[doc(hidden)]
pub trait Count: Shape {
    type N;
}

/// The sizes multiply to `Size`, the size of the one axis that all elements can lie along.
///
/// # Compile errors
/// `flatten_must_be_of_static_sizes`: "the number of elements of (…) cannot be computed at compile
/// time".
#[diagnostic::on_unimplemented(
    message = "the number of elements of {Self} cannot be computed at compile time",
    label = "a run-time size, or a number outside of the arithmetic",
    note = "use `fold`, which takes sizes of any kind, or `try_reshape`, which counts at run time"
)]
pub trait Flattens: Shape {
    /// The number of elements.
    type Size: Static;
}

#[diagnostic::do_not_recommend]
impl<S: Count<N: ToC>> Flattens for S {
    type Size = <S::N as ToC>::C;
}

/// `Target` has the same number of elements, proven at compile time.
///
/// # Compile errors
/// `reshape_must_keep_the_count`: "(…) and (…) do not hold the same number of elements".
#[diagnostic::on_unimplemented(
    message = "{Self} and {Target} do not hold the same number of elements",
    label = "the sizes must have the same product",
    note = "with a run-time size in a shape use `split_axis`, `merge_axes` or `try_reshape`"
)]
pub trait SameCount<Target>: Shape {}

#[diagnostic::do_not_recommend]
impl<S: Count, T: Count<N = S::N>> SameCount<T> for S {}

#[diagnostic::do_not_recommend]
impl Count for () {
    type N = U1;
}

macro_rules! counts {
    ($F:ident $($A:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<$F: Axis<Size: Known>, $($A: Axis),*> Count for ($F, $($A,)*)
        where
            ($($A,)*): Count,
            Un<$F::Size>: Mul<<($($A,)*) as Count>::N>,
        {
            type N = Prod<Un<$F::Size>, <($($A,)*) as Count>::N>;
        }
    };
}
counts! { A0 }
counts! { A0 A1 }
counts! { A0 A1 A2 }
counts! { A0 A1 A2 A3 }
counts! { A0 A1 A2 A3 A4 }
counts! { A0 A1 A2 A3 A4 A5 }
