//! The last axes of a shape.

use super::{Shape, for_each_rank};
use crate::axis::Axis;

/// The shape's last axes are those of `Tail`, in that order.
///
/// # Compile errors
/// `linear_must_fit_the_width`: "(Batch<…>, Model<C<512>>) does not end with (Model<C<384>>,)".
#[diagnostic::on_unimplemented(
    message = "{Self} does not end with {Tail}",
    label = "the last axes must be these, same name, same size"
)]
pub trait EndsWith<Tail>: Shape {
    /// The shape with one axis in place of the tail.
    type WithTail<Z: Axis>: Shape;
    /// The shape with one axis in place of the tail.
    fn with_tail<Z: Axis>(self, axis: Z) -> Self::WithTail<Z>;
}

/// The shape has a last axis.
#[diagnostic::on_unimplemented(message = "{Self} has no axis", label = "a scalar has no last axis")]
pub trait NonScalar: Shape {
    /// The last axis.
    type Last: Axis;
    /// The axes before it.
    type Init: Shape;
}

/// The shape has room for the axes of `Tail` behind its own.
#[diagnostic::on_unimplemented(
    message = "{Self} has no room for {Tail} behind it",
    label = "a shape has at most six axes"
)]
pub trait Appends<Tail>: Shape {
    /// The shape with the tail behind it.
    type Output: Shape;
    /// The shape with the tail behind it.
    fn append(self, tail: Tail) -> Self::Output;
}

macro_rules! last {
    (($($A:ident $i:tt),*)) => {
        last! { @split [] $($A)* }
    };
    (@split [$($P:ident)*] $L:ident) => {
        #[diagnostic::do_not_recommend]
        impl<$($P: Axis,)* $L: Axis> NonScalar for ($($P,)* $L,) {
            type Last = $L;
            type Init = ($($P,)*);
        }
    };
    (@split [$($P:ident)*] $X:ident $($R:ident)+) => {
        last! { @split [$($P)* $X] $($R)+ }
    };
}
for_each_rank! { nonzero last }

// tails! { [all axes] [axes in front] [the tail] }: one impl for each place to cut.
macro_rules! tails {
    ([$($T:ident $t:tt)*] [$($P:ident $p:tt)*] []) => {};
    ([$($T:ident $t:tt)*] [$($P:ident $p:tt)*] [$X:ident $x:tt $($R:ident $r:tt)*]) => {
        #[diagnostic::do_not_recommend]
        impl<$($T: Axis),*> EndsWith<($X, $($R,)*)> for ($($T,)*) {
            type WithTail<Z: Axis> = ($($P,)* Z,);
            fn with_tail<Z: Axis>(self, axis: Z) -> Self::WithTail<Z> {
                ($(self.$p,)* axis,)
            }
        }
        tails! { @append [$($P $p)*] [$X $($R)*] }
        tails! { [$($T $t)*] [$($P $p)* $X $x] [$($R $r)*] }
    };
    (@append [$($P:ident $p:tt)*] [$($R:ident)+]) => {
        #[diagnostic::do_not_recommend]
        impl<$($P: Axis,)* $($R: Axis),*> Appends<($($R,)*)> for ($($P,)*) {
            type Output = ($($P,)* $($R,)*);
            #[allow(non_snake_case)]
            fn append(self, tail: ($($R,)*)) -> Self::Output {
                let ($($R,)*) = tail;
                ($(self.$p,)* $($R,)*)
            }
        }
    };
}

macro_rules! with_tails {
    (($($A:ident $i:tt),*)) => {
        tails! { [$($A $i)*] [] [$($A $i)*] }
    };
}
for_each_rank! { nonzero with_tails }

#[diagnostic::do_not_recommend]
impl<S: Shape> Appends<()> for S {
    type Output = S;
    fn append(self, (): ()) -> S {
        self
    }
}
