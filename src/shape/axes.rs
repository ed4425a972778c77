//! Finding one axis, or two neighbours, by name.

use super::{At, Marker, Shape, for_each_rank};
use crate::axis::Axis;
use crate::size::Ours;

/// The shape has axis `A`, once. `I` says where; it is inferred.
///
/// Where two axes have one name, as in scores over `(Seq, Seq)`, rustc says "type annotations needed":
/// [`rename`](crate::Tensor::rename) them before they meet, to `Query` and `Key`.
///
/// # Compile errors
/// `axis_must_be_one_of_the_tensors`: "(Batch<…>, Model<…>) has no axis Heads<_>".
#[diagnostic::on_unimplemented(
    message = "{Self} has no axis {A}",
    label = "this axis is not one of the tensor's"
)]
pub trait HasAxis<A, I: Marker>: Shape {
    #[doc(hidden)]
    const OURS: Ours;
    /// Where the axis stands, from 0.
    const AT: usize;
    /// The shape without the axis.
    type Without: Shape;
    /// The shape with another axis in its place.
    type With<T: Axis>: Shape;
    /// The shape without the axis.
    fn without(self) -> Self::Without;
    /// The shape with another axis in its place.
    fn with<T: Axis>(self, axis: T) -> Self::With<T>;
    /// The axis.
    fn axis(self) -> A;
}

/// The shape has room for axis `A` to become two.
#[diagnostic::on_unimplemented(
    message = "axis {A} of {Self} cannot become two axes",
    label = "no such axis, or six axes already"
)]
pub trait Expands<A, I: Marker>: Shape {
    #[doc(hidden)]
    const OURS: Ours;
    /// Where the axis stands, from 0.
    const AT: usize;
    /// The shape with two axes in its place.
    type Into<X: Axis, Y: Axis>: Shape;
    /// The shape with two axes in its place.
    fn into_pair<X: Axis, Y: Axis>(self, x: X, y: Y) -> Self::Into<X, Y>;
    /// The axis.
    fn axis(self) -> A;
}

/// The shape has axis `B` right after axis `A`.
#[diagnostic::on_unimplemented(
    message = "{Self} does not have {B} right after {A}",
    label = "two axes become one only where they are neighbours in this order"
)]
pub trait HasPair<A, B, I: Marker>: Shape {
    #[doc(hidden)]
    const OURS: Ours;
    /// Where the first of them stands, from 0.
    const AT: usize;
    /// The shape with one axis in place of the two.
    type Merged<Z: Axis>: Shape;
    /// The shape with one axis in place of the two.
    fn merged<Z: Axis>(self, z: Z) -> Self::Merged<Z>;
    /// The two axes.
    fn pair(self) -> (A, B);
}

/// `Self` is the axis `A`.
///
/// `HasPair` asks this of the second axis in the place of naming it, so that the second axis is the
/// one that the caller names: where rustc took it from the shape, it would say "expected fn pointer".
/// [`Other`] keeps the question open until the caller has.
#[doc(hidden)]
pub trait Is<A> {
    #[doc(hidden)]
    const OURS: Ours;
    fn is(axis: A) -> Self;
}

#[diagnostic::do_not_recommend]
impl<A> Is<A> for A {
    const OURS: Ours = Ours;
    fn is(axis: A) -> A {
        axis
    }
}

/// A second thing that could be `A`.
#[doc(hidden)]
pub struct Other<A>(A);

#[diagnostic::do_not_recommend]
impl<A> Is<A> for Other<A> {
    const OURS: Ours = Ours;
    fn is(axis: A) -> Other<A> {
        Other(axis)
    }
}

/// The shape has room for one more axis in front.
#[diagnostic::on_unimplemented(
    message = "{Self} has no room for one more axis",
    label = "a shape has at most six axes"
)]
pub trait Prepends<A: Axis>: Shape {
    #[doc(hidden)]
    const OURS: Ours;
    /// The shape with the axis in front.
    type Output: Shape;
    /// The shape with the axis in front.
    fn prepend(self, axis: A) -> Self::Output;
}

// positions! { [all axes] [axes passed] [axes to come] }: one impl for each axis of the shape.
macro_rules! positions {
    ([$($T:ident)*] [$($P:ident $pi:tt)*] []) => {};
    ([$($T:ident)*] [$($P:ident $pi:tt)*] [$X:ident $i:tt $($R:ident $ri:tt)*]) => {
        #[diagnostic::do_not_recommend]
        impl<$($T: Axis),*> HasAxis<$X, At<$i>> for ($($T,)*) {
            const OURS: Ours = Ours;
            const AT: usize = $i;
            type Without = ($($P,)* $($R,)*);
            type With<Z: Axis> = ($($P,)* Z, $($R,)*);
            #[allow(clippy::unused_unit, reason = "of one axis, the rest is the empty tuple")]
            fn without(self) -> Self::Without {
                ($(self.$pi,)* $(self.$ri,)*)
            }
            fn with<Z: Axis>(self, axis: Z) -> Self::With<Z> {
                ($(self.$pi,)* axis, $(self.$ri,)*)
            }
            fn axis(self) -> $X {
                self.$i
            }
        }
        pair! { [$($T)*] [$($P $pi)*] [$X $i $($R $ri)*] }
        positions! { [$($T)*] [$($P $pi)* $X $i] [$($R $ri)*] }
    };
}

macro_rules! pair {
    ([$($T:ident)*] [$($P:ident $pi:tt)*] [$X:ident $i:tt]) => {};
    ([$($T:ident)*] [$($P:ident $pi:tt)*] [$X:ident $i:tt $Y:ident $j:tt $($R:ident $ri:tt)*]) => {
        #[diagnostic::do_not_recommend]
        impl<$($T: Axis,)* Second: Is<$Y>> HasPair<$X, Second, At<$i>> for ($($T,)*) {
            const OURS: Ours = Ours;
            const AT: usize = $i;
            type Merged<Z: Axis> = ($($P,)* Z, $($R,)*);
            fn merged<Z: Axis>(self, z: Z) -> Self::Merged<Z> {
                ($(self.$pi,)* z, $(self.$ri,)*)
            }
            fn pair(self) -> ($X, Second) {
                (self.$i, Second::is(self.$j))
            }
        }
    };
}

macro_rules! expansions {
    ([$($T:ident)*] [$($P:ident $pi:tt)*] []) => {};
    ([$($T:ident)*] [$($P:ident $pi:tt)*] [$X:ident $i:tt $($R:ident $ri:tt)*]) => {
        #[diagnostic::do_not_recommend]
        impl<$($T: Axis),*> Expands<$X, At<$i>> for ($($T,)*) {
            const OURS: Ours = Ours;
            const AT: usize = $i;
            type Into<Y: Axis, Z: Axis> = ($($P,)* Y, Z, $($R,)*);
            fn into_pair<Y: Axis, Z: Axis>(self, y: Y, z: Z) -> Self::Into<Y, Z> {
                ($(self.$pi,)* y, z, $(self.$ri,)*)
            }
            fn axis(self) -> $X {
                self.$i
            }
        }
        expansions! { [$($T)*] [$($P $pi)* $X $i] [$($R $ri)*] }
    };
}

macro_rules! by_name {
    (($($A:ident $i:tt),*)) => {
        positions! { [$($A)*] [] [$($A $i)*] }
    };
}
for_each_rank! { nonzero by_name }

macro_rules! with_room {
    (($($A:ident $i:tt),*)) => {
        expansions! { [$($A)*] [] [$($A $i)*] }
        #[diagnostic::do_not_recommend]
        impl<N: Axis, $($A: Axis),*> Prepends<N> for ($($A,)*) {
            const OURS: Ours = Ours;
            type Output = (N, $($A,)*);
            fn prepend(self, axis: N) -> Self::Output {
                (axis, $(self.$i,)*)
            }
        }
    };
}
with_room! { () }
for_each_rank! { up_to_5 with_room }
