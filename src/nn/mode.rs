//! Inference or training, as a type.

use super::{AnyParameter, Parameter};
use crate::autodiff::{Gradients, backward};
use crate::element::Float;
use crate::shape::{ScalarLoss, Shape};
use crate::tensor::{AnyTensor, Generator, ParameterId, Tensor};

pub(super) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Infer {}
    impl Sealed for super::Train {}
}

/// How a layer's `forward` runs: [`Infer`] or [`Train`], or [`Trace`](crate::Trace), which infers and keeps
/// what every layer gives.
///
/// Parameters enter a computation only through the mode, and dropout acts only under [`Train`], so
/// a layer cannot be left in the wrong state: the call says which it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mode",
    label = "not a mode",
    note = "pass `&mut Infer`, `&mut Train::seeded(…)` or `&mut Trace::of(&model)`"
)]
pub trait Mode: sealed::Sealed {
    /// Whether this is [`Train`].
    const TRAINING: bool;

    /// The parameter's value, for use in a computation.
    fn read<S: Shape, E: Float>(&mut self, parameter: &Parameter<S, E>) -> Tensor<S, E>;

    /// What dropout draws from; none in inference.
    #[doc(hidden)]
    fn generator(&mut self) -> Option<&mut Generator>;

    /// Whether layers are to take the way that shows their steps, in the place of the fused one.
    #[doc(hidden)]
    const TRACING: bool = false;

    /// What the layer with this parameter gave. Nothing is done with it but in a trace.
    #[doc(hidden)]
    fn note<E: Float>(&mut self, _layer: ParameterId, _output: &AnyTensor<E>) {}

    /// As `note`, of another step of the layer, which has a name of its own.
    #[doc(hidden)]
    fn note_step<E: Float>(&mut self, _layer: ParameterId, _step: &str, _output: &AnyTensor<E>) {}
}

/// Whether layers are to take the way that shows their steps.
pub(crate) fn is_tracing<M: Mode>(_: &M) -> bool {
    M::TRACING
}

/// Inference: nothing is drawn, nothing is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Infer;

impl Infer {
    /// Does not compile: it is there to say why.
    #[doc(hidden)]
    pub fn backward<L: RecordedUnderTrain>(&self, _loss: &L) {}
}

/// What has gradients to give, said of what was computed under [`Infer`]: nothing.
#[diagnostic::on_unimplemented(
    message = "nothing computed under `Infer` has gradients",
    label = "compute the loss under `Train`, and ask that for its gradients"
)]
pub trait RecordedUnderTrain {}

/// Training: what is computed from parameters is recorded, so that [`backward`](Train::backward) finds
/// their gradients, and dropout is on, drawn from a seed.
#[derive(Clone, Debug)]
pub struct Train {
    generator: Generator,
}

impl Train {
    /// Training whose dropout depends on `seed` alone.
    pub fn seeded(seed: u64) -> Self {
        Train { generator: Generator::seeded(seed) }
    }

    /// The gradients of `loss` with respect to every parameter that it was computed from.
    ///
    /// # Shapes
    /// `loss` has no axis.
    ///
    /// # Numerics
    /// Gradients of what is used several times are added in an order that the computation fixes: the bits
    /// are the same for every number of threads. Where nothing was computed under `Train`, all are 0.
    ///
    /// # Compile errors
    /// `backward_needs_a_scalar_loss`, `backward_must_not_be_asked_of_infer`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Hidden, Linear, Model, Tensor, Train, C};
    ///
    /// let weight = Tensor::<(Model<C<2>>, Hidden<C<1>>)>::from([[3.0], [4.0]]);
    /// let layer: Linear<_, _> = Linear::new(weight, Tensor::zeros());
    /// let x = Tensor::<(Batch<C<1>>, Model<C<2>>)>::from([[5.0, 6.0]]);
    ///
    /// let mut train = Train::seeded(1);
    /// let loss = layer.forward(&x, &mut train).sum_all();
    /// let gradients = train.backward(&loss);
    /// assert_eq!(gradients.of(&layer.weight).to_vec(), [5.0, 6.0]);
    /// assert_eq!(gradients.of(&layer.bias).to_vec(), [1.0]);
    /// ```
    pub fn backward<S: ScalarLoss, E: Float>(&self, loss: &Tensor<S, E>) -> Gradients {
        self.backward_from(loss, 1.0)
    }

    /// The gradients of `factor` · `loss`.
    pub(crate) fn backward_from<S: ScalarLoss, E: Float>(
        &self,
        loss: &Tensor<S, E>,
        factor: f64,
    ) -> Gradients {
        backward(loss.any(), factor)
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
        let value = parameter.value();
        Tensor::typed(value.shape(), value.erase().read_from(parameter.id()))
    }
    fn generator(&mut self) -> Option<&mut Generator> {
        Some(&mut self.generator)
    }
}
