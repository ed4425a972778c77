//! Shapes that need no value, shapes without axes, and shapes that are the same.

use super::Shape;

/// Every size is known at compile time, so the shape needs no value to be written for it.
///
/// # Compile errors
/// `shape_of_run_time_sizes_must_be_given`: "`(Batch<B>, Model<C<8>>)` has a size that is not
/// known at compile time".
#[diagnostic::on_unimplemented(
    message = "{Self} has a size that is not known at compile time",
    label = "its value is needed: use the function of the same name that ends in `_in`",
    note = "in generic code the bound `Static` says that a size is known at compile time"
)]
pub trait FixedSizes: Sized {
    /// The shape or axis.
    #[doc(hidden)]
    fn fixed() -> Self;
}

#[diagnostic::do_not_recommend]
impl<S: Default> FixedSizes for S {
    fn fixed() -> S {
        S::default()
    }
}

/// The shape has no axis, so a tensor over it is one number.
///
/// # Compile errors
/// `value_must_be_of_a_scalar`: "a tensor over (Key<C<3>>,) is not one number".
#[diagnostic::on_unimplemented(
    message = "a tensor over {Self} is not one number",
    label = "take its axes away first, as `.mean(Seq)` and `.sum_all()` do"
)]
pub trait Scalar: Shape {}

#[diagnostic::do_not_recommend]
impl Scalar for () {}

/// The shape has no axis, so a tensor over it can be a loss.
///
/// # Compile errors
/// `backward_needs_a_scalar_loss`: "backward needs a scalar loss, not a tensor over (Batch<C<2>>,)".
#[diagnostic::on_unimplemented(
    message = "backward needs a scalar loss, not a tensor over {Self}",
    label = "reduce it to one number first, as `.mean_all()` and `.sum_all()` do"
)]
pub trait ScalarLoss: Shape {}

#[diagnostic::do_not_recommend]
impl ScalarLoss for () {}

/// The shapes are the same one.
///
/// # Compile errors
/// `concat_must_agree_on_the_other_axes`: "(…, Model<C<9>>) cannot be joined to (…, Model<C<8>>)".
#[diagnostic::on_unimplemented(
    message = "{Self} cannot be joined to {Other}",
    label = "all axes but the joined one must be the same",
    note = "the shapes are shown without the joined axis"
)]
pub trait SameAxes<Other>: Shape {}

#[diagnostic::do_not_recommend]
impl<S: Shape> SameAxes<S> for S {}
