//! Inference or training, as a type.

use super::Parameter;
use crate::element::Float;
use crate::shape::Shape;
use crate::tensor::{Generator, Tensor};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Infer {}
    impl Sealed for super::Train {}
}

/// How a layer's `forward` runs: [`Infer`] or [`Train`].
///
/// Parameters enter a computation only through the mode, and dropout acts only under [`Train`], so
/// a layer cannot be left in the wrong state: the call says which it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mode",
    label = "not a mode",
    note = "pass `&mut Infer` or `&mut Train::seeded(…)`"
)]
pub trait Mode: sealed::Sealed {
    /// Whether this is [`Train`].
    const TRAINING: bool;

    /// The parameter's value, for use in a computation.
    fn read<S: Shape, E: Float>(&mut self, parameter: &Parameter<S, E>) -> Tensor<S, E>;

    /// What dropout draws from; none under [`Infer`].
    #[doc(hidden)]
    fn generator(&mut self) -> Option<&mut Generator>;
}

/// Inference: nothing is drawn, nothing is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Infer;

/// Training: dropout is on, drawn from a seed.
#[derive(Clone, Debug)]
pub struct Train {
    generator: Generator,
}

impl Train {
    /// Training whose dropout depends on `seed` alone.
    pub fn seeded(seed: u64) -> Self {
        Train { generator: Generator::seeded(seed) }
    }
}

#[diagnostic::do_not_recommend]
impl Mode for Infer {
    const TRAINING: bool = false;
    fn read<S: Shape, E: Float>(&mut self, parameter: &Parameter<S, E>) -> Tensor<S, E> {
        parameter.value()
    }
    fn generator(&mut self) -> Option<&mut Generator> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl Mode for Train {
    const TRAINING: bool = true;
    fn read<S: Shape, E: Float>(&mut self, parameter: &Parameter<S, E>) -> Tensor<S, E> {
        parameter.value()
    }
    fn generator(&mut self) -> Option<&mut Generator> {
        Some(&mut self.generator)
    }
}
