//! Matrix products: over a named axis, and by position.

use super::{Shape, for_each_rank};
use crate::axis::Axis;

/// What is left of two shapes when the axis they are contracted over is taken out of both fits
/// together: the right side's axes but its last are the left side's first axes.
///
/// The product has the left side's axes and the right side's last one:
/// `(Batch, Heads, Query)` with `(Batch, Heads, Key)` gives `(Batch, Heads, Query, Key)`, and
/// `(Batch, Seq)` with `(Hidden,)`, the rest of a weight, gives `(Batch, Seq, Hidden)`.
#[diagnostic::on_unimplemented(
    message = "{Self} and {Right} do not fit together in a product",
    label = "without the contracted axis, all axes of the right side but its last must be the left side's first"
)]
pub trait Contracts<Right>: Shape {
    /// The product's shape.
    type Output: Shape;
    /// The product's shape.
    fn contracted(self, right: Right) -> Self::Output;
}

/// Matrices, or equal batches of them: `(…, M, K)` times `(…, K, N)` is `(…, M, N)`.
#[diagnostic::on_unimplemented(
    message = "{Self} times {Right} is not a matrix product",
    label = "`(…, M, K)` times `(…, K, N)`: the same leading axes, and the left side's last axis is the right side's second to last"
)]
pub trait MatrixProduct<Right>: Shape {
    /// The product's shape.
    type Output: Shape;
    /// The product's shape.
    fn product(self, right: Right) -> Self::Output;
}

// splits! { [shared axes] [the left side's other axes] }: one impl for each place to cut.
macro_rules! splits {
    ([$($L:ident)*] [$($X:ident)*]) => {
        #[diagnostic::do_not_recommend]
        impl<$($L: Axis,)* $($X: Axis,)* Y: Axis> Contracts<($($L,)* Y,)> for ($($L,)* $($X,)*) {
            type Output = ($($L,)* $($X,)* Y,);
            #[allow(non_snake_case, unused_variables, reason = "both sides' shared axes are equal")]
            fn contracted(self, right: ($($L,)* Y,)) -> Self::Output {
                let ($($L,)* last,) = right;
                let ($($L,)* $($X,)*) = self;
                ($($L,)* $($X,)* last,)
            }
        }
        splits! { @next [$($L)*] [$($X)*] }
    };
    (@next [$($L:ident)*] []) => {};
    (@next [$($L:ident)*] [$N:ident $($X:ident)*]) => {
        splits! { [$($L)* $N] [$($X)*] }
    };
}

macro_rules! contracts {
    (($($A:ident $i:tt),*)) => {
        splits! { [] [$($A)*] }
    };
}
contracts! { () }
for_each_rank! { up_to_5 contracts }

#[diagnostic::do_not_recommend]
impl<S: Shape> Contracts<()> for S {
    type Output = S;
    fn contracted(self, (): ()) -> S {
        self
    }
}

macro_rules! matrices {
    (@one_right_side $($L:ident)+) => {
        matrices! { $($L)+ }
        #[diagnostic::do_not_recommend]
        impl<$($L: Axis,)* M: Axis, K: Axis, N: Axis> MatrixProduct<(K, N)> for ($($L,)* M, K) {
            type Output = ($($L,)* M, N);
            #[allow(non_snake_case)]
            fn product(self, (_, columns): (K, N)) -> Self::Output {
                let ($($L,)* rows, _) = self;
                ($($L,)* rows, columns)
            }
        }
    };
    ($($L:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<$($L: Axis,)* M: Axis, K: Axis, N: Axis> MatrixProduct<($($L,)* K, N)> for ($($L,)* M, K) {
            type Output = ($($L,)* M, N);
            #[allow(non_snake_case, unused_variables, reason = "both sides' leading axes are equal")]
            fn product(self, right: ($($L,)* K, N)) -> Self::Output {
                let ($($L,)* _, columns) = right;
                let ($($L,)* rows, _) = self;
                ($($L,)* rows, columns)
            }
        }
    };
}
matrices! {}
matrices! { @one_right_side A0 }
matrices! { @one_right_side A0 A1 }
matrices! { @one_right_side A0 A1 A2 }
matrices! { @one_right_side A0 A1 A2 A3 }
