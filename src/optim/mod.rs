//! Training: optimizers, schedules, clipping.

mod adam;
mod clip;
mod loss_scale;
mod optimizer;
mod schedule;
mod sgd;

pub use adam::{Adam, AdamW};
pub use loss_scale::LossScale;
pub use optimizer::Optimizer;
#[cfg(feature = "files")]
pub(crate) use optimizer::{Slots, State};
pub use schedule::Schedule;
pub use sgd::Sgd;

use crate::element::Float;
use crate::error::Result;
use crate::tensor::AnyTensor;
use optimizer::Step;
use std::fmt::Debug;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Sgd {}
    impl Sealed for super::Adam {}
    impl Sealed for super::AdamW {}
}

/// How a parameter follows its gradient: [`Sgd`], [`Adam`] or [`AdamW`], which an [`Optimizer`] applies.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rule that an optimizer follows",
    label = "expected `Sgd`, `Adam` or `AdamW`"
)]
pub trait UpdateRule: sealed::Sealed + Debug + Send + Sync {
    /// What files call it.
    #[doc(hidden)]
    const NAME: &'static str;
    /// The names of what is kept of a parameter.
    #[doc(hidden)]
    fn slots(&self) -> &'static [&'static str];
    /// Refuses settings outside of what they can be.
    #[doc(hidden)]
    fn check(&self) -> Result<()>;
    /// One update. `slots` are as many as [`slots`](Self::slots) names, and zeros in the first update.
    #[doc(hidden)]
    fn apply<E: Float>(
        &self,
        parameter: &mut [E],
        slots: &mut [AnyTensor<E>],
        gradient: &[E],
        step: Step,
    );
}
