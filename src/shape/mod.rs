//! Shapes: tuples of axes, and the relations between them.
//!
//! Each relation is a trait with a sentence, implemented for tuples of axes by structure alone.
//! Methods of [`Tensor`](crate::Tensor) carry the relations as bounds, so that a shape that breaks
//! one does not compile and the error is that sentence.

mod axes;
mod broadcast;
mod contract;
mod count;
mod fixed;
mod permute;
mod tail;

pub use axes::{Expands, HasAxis, HasPair, Is, Other, Prepends};
pub use broadcast::BroadcastsTo;
pub use contract::{Contracts, MatrixProduct};
pub use count::{Count, Flattens, SameCount};
pub use fixed::{FixedSizes, SameAxes, Scalar, ScalarLoss};
pub use permute::{PermutesTo, Places};
pub use tail::{Appends, EndsWith, NonScalar};

use crate::axis::Axis;
use crate::error::{Error, Result};
pub use crate::kernel::layout::Dims;
use crate::kernel::layout::checked_count;
use std::fmt::Debug;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// All axes of a tensor, as a type and as a value: `(Batch(b), Seq(s), Model(C::<384>))`.
///
/// A shape is a tuple of up to six [`Axis`] types. Shapes whose sizes are all static are
/// `Default`, so no value has to be written for them.
///
/// ```
/// use shapeproof::{Batch, Model, Shape, C};
///
/// let shape = (Batch(C::<2>), Model(C::<8>));
/// assert_eq!(*shape.dims(), [2, 8]);
/// assert_eq!(shape.try_count().unwrap(), 16);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    label = "not a shape",
    note = "a shape is a tuple of up to six axes, such as `(Batch<B>, Seq<S>, Model<M>)`; a shape of one axis has a comma: `(Model<M>,)`; the size of an axis is `C<N>` or comes from `dyn_size!`"
)]
pub trait Shape: Sealed + Copy + PartialEq + Debug + Send + Sync {
    /// The number of axes.
    const RANK: usize;
    /// The axes' names, in order.
    const NAMES: &'static [&'static str];
    /// The axes' sizes, in order.
    fn dims(&self) -> Dims;
    /// The number of elements.
    ///
    /// # Errors
    /// Where it, or a product of the non-zero sizes, exceeds `isize::MAX`.
    fn try_count(&self) -> Result<usize> {
        checked_count(&self.dims()).ok_or_else(|| Error::count_overflow(&self.dims()))
    }
}

/// What makes impls of one relation distinct; found by inference, never written.
///
/// It is closed: a marker of a user's own could add a false relation.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot prove a relation between shapes: the relations are this crate's own",
    label = "a relation cannot be added"
)]
pub trait Marker: Sealed {}

/// Which axes of the larger shape the smaller one has, as bits: a [`Marker`].
pub struct Axes<const BITS: usize>;
impl<const B: usize> Sealed for Axes<B> {}
#[diagnostic::do_not_recommend]
impl<const B: usize> Marker for Axes<B> {}

/// The axis stands at place `I`, from 0: a [`Marker`].
pub struct At<const I: usize>;
impl<const I: usize> Sealed for At<I> {}
#[diagnostic::do_not_recommend]
impl<const I: usize> Marker for At<I> {}

/// Calls a macro with each rank's axes, numbered: `(A0 0, A1 1)`.
macro_rules! for_each_rank {
    ($each:ident) => {
        $each! { () }
        crate::shape::for_each_rank! { nonzero $each }
    };
    (nonzero $each:ident) => {
        crate::shape::for_each_rank! { up_to_5 $each }
        $each! { (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5) }
    };
    (up_to_5 $each:ident) => {
        $each! { (A0 0) }
        $each! { (A0 0, A1 1) }
        $each! { (A0 0, A1 1, A2 2) }
        $each! { (A0 0, A1 1, A2 2, A3 3) }
        $each! { (A0 0, A1 1, A2 2, A3 3, A4 4) }
    };
}
pub(crate) use for_each_rank;

macro_rules! shape {
    (($($A:ident $i:tt),*)) => {
        impl<$($A: Axis),*> Sealed for ($($A,)*) {}
        #[diagnostic::do_not_recommend]
        impl<$($A: Axis),*> Shape for ($($A,)*) {
            const RANK: usize = Self::NAMES.len();
            const NAMES: &'static [&'static str] = &[$($A::NAME),*];
            fn dims(&self) -> Dims {
                Dims::new(&[$(crate::size::Size::get(self.$i.size())),*])
            }
        }
    };
}
for_each_rank! { shape }
