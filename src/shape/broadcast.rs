//! Broadcasting by name.

use super::{Axes, Marker, Shape, for_each_rank};
use crate::axis::Axis;
use crate::kernel::layout::Dims;

/// Every axis of this shape is one of `Larger`'s, with the same name and size, in the same order;
/// the axes that are missing repeat.
///
/// `(Model<M>,)` broadcasts to `(Batch<B>, Seq<S>, Model<M>)`, and so does `(Batch<B>, Model<M>)`.
/// Sizes never stretch: an axis of size 1 is an axis of size 1. `How` is inferred.
///
/// # Compile errors
/// `bias_must_broadcast_by_name`: "(Model<C<7>>,) does not broadcast to (…)".
#[diagnostic::on_unimplemented(
    message = "{Self} does not broadcast to {Larger}",
    label = "every axis of the smaller shape must be in the larger, same name, same size, same order"
)]
pub trait BroadcastsTo<Larger, How: Marker>: Shape {
    /// Where this shape's axes stand in the larger one, ascending.
    fn positions() -> Dims;
}

// subsets! { [all axes] [axes picked] [axes to come] {their bits} }: one impl for each subset.
macro_rules! subsets {
    ([$($T:ident $t:tt)*] [$($P:ident $p:tt)*] [] { $bits:expr }) => {
        #[diagnostic::do_not_recommend]
        impl<$($T: Axis),*> BroadcastsTo<($($T,)*), Axes<{ $bits }>> for ($($P,)*) {
            fn positions() -> Dims {
                Dims::new(&[$($p),*])
            }
        }
    };
    ([$($T:ident $t:tt)*] [$($P:ident $p:tt)*] [$X:ident $x:tt $($R:ident $r:tt)*] { $bits:expr }) => {
        subsets! { [$($T $t)*] [$($P $p)*] [$($R $r)*] { $bits * 2 } }
        subsets! { [$($T $t)*] [$($P $p)* $X $x] [$($R $r)*] { $bits * 2 + 1 } }
    };
}

macro_rules! broadcasts {
    (($($A:ident $i:tt),*)) => {
        subsets! { [$($A $i)*] [] [$($A $i)*] { 0 } }
    };
}
for_each_rank! { broadcasts }
