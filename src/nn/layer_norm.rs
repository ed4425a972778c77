//! Layer normalisation.

use super::norm::NormOf;
use super::{AnyParameter, Mode, Module, Parameter};
use crate::axis::Axis;
use crate::element::Float;
use crate::parameters;
use crate::shape::{EndsWith, FixedSizes, Shape, for_each_rank};
use crate::tensor::Tensor;

/// What a norm runs over: one axis, `Model<M>`, or a tuple of the last axes, `(Seq<S>, Model<M>)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an axis with a size nor a tuple of such axes",
    label = "a norm runs over an axis, `Model<M>`, or a tuple, `(Seq<S>, Model<M>)`, whose sizes have the bound `Size`",
    note = "in a generic struct or function write the bound where the parameter is declared: `<M: Size>`"
)]
pub trait Trailing {
    /// The axes as a shape.
    type Shape: Shape;
}

#[diagnostic::do_not_recommend]
impl<A: Axis> Trailing for A {
    type Shape = (A,);
}

macro_rules! trailing {
    (($($A:ident $i:tt),*)) => {
        #[diagnostic::do_not_recommend]
        impl<$($A: Axis),*> Trailing for ($($A,)*) {
            type Shape = Self;
        }
    };
}
for_each_rank! { nonzero trailing }

/// y = (x − mean) / √(variance + ε) · weight + bias, over the last axes.
///
/// # Shapes
/// `x` ends with the axes of `A`; the result has its shape. A generic struct that holds a
/// `LayerNorm<Model<M>>` has the bound `M: Size`.
///
/// # Numerics
/// The variance is the biased one (divided by n), ε stands inside the root. Accumulates in f64
/// for f64, else in f32, around the mean: an offset of 1000 costs no more than its own rounding. A
/// constant row gives the bias.
///
/// # Compile errors
/// `norm_must_run_over_the_last_axes`.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Infer, LayerNorm, Model, Tensor, C};
///
/// let norm = LayerNorm::<Model<C<4>>>::new(1e-5);
/// let x = Tensor::<(Batch<C<1>>, Model<C<4>>)>::from([[2.0, 0.0, 0.0, 2.0]]);
/// let y = norm.forward(&x, &mut Infer);
/// assert!(y.all_close(&Tensor::from([[0.999995, -0.999995, -0.999995, 0.999995]]), 0.0, 1e-6));
/// ```
///
/// # References
/// Ba, Kiros and Hinton, "Layer Normalization", 2016.
pub struct LayerNorm<A: Trailing, E = f32> {
    /// The factor of each element.
    pub weight: Parameter<A::Shape, E>,
    /// What is added to each element.
    pub bias: Parameter<A::Shape, E>,
    /// ε, which keeps the root away from 0.
    pub epsilon: f64,
}

impl<A: Trailing, E: Float> LayerNorm<A, E> {
    /// A norm of weight 1 and bias 0. `epsilon` has no default: a model's own is part of it.
    pub fn new(epsilon: f64) -> Self
    where
        A::Shape: FixedSizes,
    {
        Self::new_in(A::Shape::fixed(), epsilon)
    }

    /// A norm of weight 1 and bias 0 for axes of any kind of size.
    pub fn new_in(shape: A::Shape, epsilon: f64) -> Self {
        LayerNorm {
            weight: Parameter::new(Tensor::ones_in(shape)),
            bias: Parameter::new(Tensor::zeros_in(shape)),
            epsilon,
        }
    }

    /// The normalised `x`.
    pub fn forward<S: EndsWith<A::Shape>>(
        &self,
        x: &Tensor<S, E>,
        mode: &mut impl Mode,
    ) -> Tensor<S, E> {
        let (weight, bias) = (mode.read(&self.weight).packed(), mode.read(&self.bias).packed());
        let y = self.norm(&weight, &bias).of(x.any());
        mode.note(self.weight.id(), &y);
        Tensor::typed(x.shape(), y)
    }

    /// Puts the normalised rows in the place of `x`'s.
    pub(super) fn apply_in_place<S: EndsWith<A::Shape>>(
        &self,
        x: &mut Tensor<S, E>,
        mode: &mut impl Mode,
    ) {
        let (weight, bias) = (mode.read(&self.weight).packed(), mode.read(&self.bias).packed());
        self.norm(&weight, &bias).apply(x.any_mut());
        mode.note(self.weight.id(), x.any());
    }

    /// The operation, given packed parameters.
    fn norm<'a>(
        &self,
        weight: &'a Tensor<A::Shape, E>,
        bias: &'a Tensor<A::Shape, E>,
    ) -> NormOf<'a, E> {
        let (weight, bias) = (weight.any(), Some(bias.any()));
        NormOf { weight, bias, centered: true, epsilon: self.epsilon }
    }
}

#[diagnostic::do_not_recommend]
impl<A: Trailing, E: Float> Module for LayerNorm<A, E> {
    parameters!(weight, bias);
}
