//! Putting the same axes in another order.

use super::{HasAxis, Marker, Shape, sealed::Sealed};
use crate::axis::Axis;
use crate::kernel::layout::Dims;
use std::marker::PhantomData;

/// `Target` has the same axes in another order. `How` is inferred.
///
/// # Compile errors
/// `permutation_must_keep_the_axes`: "(…) is no reordering of (…)".
#[diagnostic::on_unimplemented(
    message = "{Target} is no reordering of {Self}",
    label = "the new order must have the same axes, each once"
)]
pub trait PermutesTo<Target, How: Marker>: Shape {
    /// Where the target's axes stand in this shape.
    fn order() -> Dims;
    /// The axes in the new order.
    fn permuted(self) -> Target;
}

/// The place of the target's first axis, and the path of the rest without it: a [`Marker`].
pub struct Places<I, Rest>(PhantomData<(I, Rest)>);
impl<I: Marker, Rest: Marker> Sealed for Places<I, Rest> {}
#[diagnostic::do_not_recommend]
impl<I: Marker, Rest: Marker> Marker for Places<I, Rest> {}

/// The end of a [`Places`].
pub struct End;
impl Sealed for End {}
#[diagnostic::do_not_recommend]
impl Marker for End {}

#[diagnostic::do_not_recommend]
impl PermutesTo<(), End> for () {
    fn order() -> Dims {
        Dims::default()
    }
    fn permuted(self) {}
}

/// Puts `first` before `rest`, whose places are counted without it.
fn order(first: usize, mut rest: Dims) -> Dims {
    for place in rest.iter_mut() {
        *place += usize::from(*place >= first);
    }
    rest.inserted(0, first)
}

macro_rules! permutes {
    ($F:ident $($A:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<S, $F: Axis, $($A: Axis,)* I: Marker, R: Marker> PermutesTo<($F, $($A,)*), Places<I, R>> for S
        where
            S: HasAxis<$F, I, Without: PermutesTo<($($A,)*), R>>,
        {
            fn order() -> Dims {
                order(S::AT, <S::Without as PermutesTo<($($A,)*), R>>::order())
            }
            #[allow(non_snake_case)]
            fn permuted(self) -> ($F, $($A,)*) {
                let ($($A,)*) = self.without().permuted();
                (self.axis(), $($A,)*)
            }
        }
    };
}
permutes! { A0 }
permutes! { A0 A1 }
permutes! { A0 A1 A2 }
permutes! { A0 A1 A2 A3 }
permutes! { A0 A1 A2 A3 A4 }
permutes! { A0 A1 A2 A3 A4 A5 }
