//! The linear map.

use super::mode::is_tracing;
use super::packing::{Map, ReadMap, is_recorded};
use super::{
    Absent, AnyParameter, Bias, BiasKind, Fans, Init, Mode, Module, NoBias, Packing, Parameter,
    Visitor, VisitorMut,
};
use crate::axis::Axis;
use crate::element::Float;
use crate::kernel::linear::Projection;
use crate::ops::Activation;
use crate::shape::{EndsWith, FixedSizes};
use crate::size::Size;
use crate::tensor::{AnyTensor, Generator, Tensor};
use std::sync::Arc;

/// y = x · W + b over the last axis.
///
/// `I` and `O` are axes: `Linear<Model<M>, Hidden<F>>`. `B` says whether there is a bias.
///
/// # Shapes
/// `x` ends with `I`; the result has `O` in its place. The weight is over `(I, O)`; files have it in
/// either order, and the loader is told which.
///
/// # Numerics
/// Accumulates in f64 for f64, else in f32. The weight is packed for the product at first use and
/// again when it has changed; the packed copy takes as much memory as the weight.
///
/// # Compile errors
/// `linear_must_fit_the_width`.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Hidden, Infer, Linear, Model, Parameter, Tensor, C};
///
/// let weight = Tensor::<(Model<C<2>>, Hidden<C<3>>)>::from([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]);
/// let layer: Linear<_, _> = Linear::new(weight, Tensor::from([0.0, 0.0, 10.0]));
/// let x = Tensor::<(Batch<C<1>>, Model<C<2>>)>::from([[3.0, 4.0]]);
/// assert_eq!(layer.forward(&x, &mut Infer).to_vec(), [3.0, 4.0, 17.0]);
/// ```
pub struct Linear<I, O, B: BiasKind = Bias, E = f32> {
    /// W, over (in, out).
    pub weight: Parameter<(I, O), E>,
    /// b, or nothing.
    pub bias: B::Of<Parameter<(O,), E>>,
    packing: Packing<E>,
}

impl<I: Axis, O: Axis, B: BiasKind, E: Float> Linear<I, O, B, E> {
    /// A layer of zeros, to be loaded.
    pub fn zeros() -> Self
    where
        I: FixedSizes,
        O: FixedSizes,
    {
        Self::zeros_in(I::fixed(), O::fixed())
    }

    /// A layer of zeros for axes of any kind of size.
    pub fn zeros_in(input: I, output: O) -> Self {
        Self::of(Tensor::zeros_in((input, output)), || Tensor::zeros_in((output,)))
    }

    /// Weights drawn by Xavier's rule, uniformly from ±√(6 / (in + out)), and a bias of zeros. An
    /// [`Init`] draws them by other rules.
    ///
    /// # References
    /// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    /// networks", 2010, equation 16.
    pub fn xavier(generator: &mut Generator) -> Self
    where
        I: FixedSizes,
        O: FixedSizes,
    {
        let (input, output) = (I::fixed(), O::fixed());
        let fans = Fans { input: input.size().get(), output: output.size().get() };
        let weight = Init::xavier_uniform().drawn((input, output), fans, generator);
        Self::of(weight, || Tensor::zeros_in((output,)))
    }

    fn of(weight: Tensor<(I, O), E>, bias: impl FnOnce() -> Tensor<(O,), E>) -> Self {
        Linear {
            weight: Parameter::new(weight).projection(),
            bias: B::make(|| Parameter::new(bias())),
            packing: Packing::default(),
        }
    }

    /// y = x · W + b.
    ///
    /// # Shapes
    /// `x` ends with `I`, which becomes `O`.
    pub fn forward<S: EndsWith<(I,)>>(
        &self,
        x: &Tensor<S, E>,
        mode: &mut impl Mode,
    ) -> Tensor<S::WithTail<O>, E> {
        let shape = x.shape().with_tail(self.weight.shape().1);
        let y = self.applied(x.any(), None, mode);
        mode.note(self.weight.id(), &y);
        Tensor::typed(shape, y)
    }

    /// activation(x · W + b), in one pass.
    pub(super) fn activated<S: EndsWith<(I,)>>(
        &self,
        x: &Tensor<S, E>,
        activation: Activation,
        mode: &mut impl Mode,
    ) -> Tensor<S::WithTail<O>, E> {
        if is_tracing(mode) {
            return activation.of(&self.forward(x, mode));
        }
        let shape = x.shape().with_tail(self.weight.shape().1);
        Tensor::typed(shape, self.applied(x.any(), Some(activation), mode))
    }

    fn applied(
        &self,
        x: &AnyTensor<E>,
        activation: Option<Activation>,
        mode: &mut impl Mode,
    ) -> AnyTensor<E> {
        apply(x, self.read_map(mode).lent(), activation, &self.packing)
    }

    /// The map, packed.
    pub(crate) fn packed(&self, mode: &mut impl Mode) -> Arc<Projection<E>> {
        self.packing.of(&[self.read_map(mode).lent()])
    }

    /// The weight and the bias, read in this mode.
    pub(crate) fn read_map(&self, mode: &mut impl Mode) -> ReadMap<E> {
        let bias = B::get(&self.bias).map(|bias| mode.read(bias).erase());
        ReadMap { weight: mode.read(&self.weight).erase(), bias }
    }
}

impl<I: Axis, O: Axis, E: Float> Linear<I, O, Bias, E> {
    /// A layer of these weights and this bias.
    pub fn new(weight: Tensor<(I, O), E>, bias: Tensor<(O,), E>) -> Self {
        Self::of(weight, || bias)
    }
}

impl<I: Axis, O: Axis, E: Float> Linear<I, O, NoBias, E> {
    /// A layer of these weights.
    pub fn without_bias(weight: Tensor<(I, O), E>) -> Self {
        Linear {
            weight: Parameter::new(weight).projection(),
            bias: Absent,
            packing: Packing::default(),
        }
    }
}

/// activation(x · W + b), over x's axes but the last and the weight's columns: in one pass, unless a
/// gradient needs what the activation saw. Knows no shape, so that it is compiled once for all.
fn apply<E: Float>(
    x: &AnyTensor<E>,
    map: Map<E>,
    activation: Option<Activation>,
    packing: &Packing<E>,
) -> AnyTensor<E> {
    match activation {
        Some(activation) if is_recorded(x, &[map]) => activation.of_any(&packing.apply(x, &[map])),
        Some(activation) => {
            let projection = packing.of(&[map]);
            let dims = x.layout().dims.replaced(x.rank() - 1, projection.weight.dims().1);
            let data = projection.apply(x.view(), Some(activation.of_slice()));
            AnyTensor::from_packed(&dims, data)
        }
        None => packing.apply(x, &[map]),
    }
}

#[diagnostic::do_not_recommend]
impl<I: Axis, O: Axis, B: BiasKind, E: Float> Module for Linear<I, O, B, E> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.parameter("weight", &self.weight);
        if let Some(bias) = B::get(&self.bias) {
            visitor.parameter("bias", bias);
        }
    }
    fn visit_mut<'a>(&'a mut self, visitor: &mut dyn VisitorMut<'a>) {
        visitor.parameter("weight", &mut self.weight);
        if let Some(bias) = B::get_mut(&mut self.bias) {
            visitor.parameter("bias", bias);
        }
    }
}
