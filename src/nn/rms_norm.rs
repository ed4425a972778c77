//! Root mean square normalisation.

use super::norm::NormOf;
use super::{AnyParameter, Mode, Module, Parameter, Trailing};
use crate::element::Float;
use crate::parameters;
use crate::shape::{EndsWith, FixedSizes};
use crate::tensor::Tensor;

/// y = x / √(mean(x²) + ε) · weight, over the last axes.
///
/// # Shapes
/// `x` ends with the axes of `A`, one axis or a tuple of them; the result has its shape. A generic
/// struct that holds an `RmsNorm<Model<M>>` has the bound `M: Size`.
///
/// # Numerics
/// The mean is taken over all elements of the last axes, ε stands inside the root. Accumulates in f64
/// for f64, else f32. A row of zeros gives zeros.
///
/// # Compile errors
/// `rms_norm_must_run_over_the_last_axes`.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Infer, Model, RmsNorm, Tensor, C};
///
/// let norm = RmsNorm::<Model<C<4>>>::new(1e-6);
/// let x = Tensor::<(Batch<C<1>>, Model<C<4>>)>::from([[2.0, 0.0, 0.0, 2.0]]);
/// let y = norm.forward(&x, &mut Infer);
/// assert!(y.all_close(&Tensor::from([[1.414213, 0.0, 0.0, 1.414213]]), 0.0, 1e-6));
/// ```
///
/// # References
/// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019, equation 4; the weight is its g.
pub struct RmsNorm<A: Trailing, E = f32> {
    /// The factor of each element.
    pub weight: Parameter<A::Shape, E>,
    /// ε, which keeps the root away from 0.
    pub epsilon: f64,
}

impl<A: Trailing, E: Float> RmsNorm<A, E> {
    /// A norm of weight 1. `epsilon` has no default: a model's own is part of it.
    pub fn new(epsilon: f64) -> Self
    where
        A::Shape: FixedSizes,
    {
        Self::new_in(A::Shape::fixed(), epsilon)
    }

    /// A norm of weight 1 for axes of any kind of size.
    pub fn new_in(shape: A::Shape, epsilon: f64) -> Self {
        RmsNorm { weight: Parameter::new(Tensor::ones_in(shape)), epsilon }
    }

    /// The normalised `x`.
    pub fn forward<S: EndsWith<A::Shape>>(
        &self,
        x: &Tensor<S, E>,
        mode: &mut impl Mode,
    ) -> Tensor<S, E> {
        let weight = mode.read(&self.weight).packed();
        let (weight, epsilon) = (weight.any(), self.epsilon);
        let norm = NormOf { weight, bias: None, centered: false, epsilon };
        let y = norm.of(x.any());
        mode.note(self.weight.id(), &y);
        Tensor::typed(x.shape(), y)
    }
}

#[diagnostic::do_not_recommend]
impl<A: Trailing, E: Float> Module for RmsNorm<A, E> {
    parameters!(weight);
}
