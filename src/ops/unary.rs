//! Functions of one element.

use crate::element::Float;
use crate::kernel::exp::exp_of_each;
use crate::kernel::math;
use crate::shape::Shape;
use crate::tensor::{AnyTensor, Tensor};
use num_traits::Float as Real;
use std::ops::Neg;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $f:expr;)+) => {
        impl<S: Shape, E: Float> Tensor<S, E> { $(
            $(#[$doc])*
            pub fn $name(&self) -> Self {
                Tensor::typed(self.shape(), self.any().map_wide($f))
            }
        )+ }
    };
}
unary! {
    /// The natural logarithm; −∞ at 0, NaN below.
    ln Real::ln;
    /// The square root; NaN below 0.
    sqrt Real::sqrt;
    /// |x|.
    abs Real::abs;
    /// −x.
    neg Neg::neg;
    /// The hyperbolic tangent.
    tanh Real::tanh;
    /// max(x, 0).
    relu math::relu;
    /// x · Φ(x), where Φ is the normal distribution's cumulative function: the exact GELU.
    ///
    /// # References
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, equation 1.
    gelu math::gelu;
    /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))): the approximate GELU.
    ///
    /// # References
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2.
    gelu_tanh math::gelu_tanh;
    /// x · σ(x), also called swish.
    silu math::silu;
    /// σ(x) = 1 / (1 + e⁻ˣ).
    sigmoid math::sigmoid;
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// eˣ.
    ///
    /// # Numerics
    /// Within 2 units in the last place for f32.
    pub fn exp(&self) -> Self {
        self.with_data(exp_of_each(self.any().view()))
    }

    /// Each element moved to the nearest number in `low..=high`; NaN stays NaN.
    pub fn clamp(&self, low: f64, high: f64) -> Self {
        Tensor::typed(self.shape(), self.any().clamp(E::from_f64(low), E::from_f64(high)))
    }
}

// The loops, in functions that know no shape, so that they are compiled once for all shapes.
impl<E: Float> AnyTensor<E> {
    fn map_wide(&self, f: impl Fn(E::Wide) -> E::Wide + Send + Sync) -> Self {
        self.map(move |x| E::narrow(f(x.wide())))
    }

    fn clamp(&self, low: E, high: E) -> Self {
        self.map(move |x| match () {
            () if x < low => low,
            () if x > high => high,
            () => x,
        })
    }
}

/// Named so that generic code can be told which activation to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// x · Φ(x), exact.
    Gelu,
    /// The tanh approximation of GELU.
    GeluTanh,
    /// x · σ(x).
    Silu,
}

impl Activation {
    /// The activation of every element.
    pub fn of<S: Shape, E: Float>(self, x: &Tensor<S, E>) -> Tensor<S, E> {
        match self {
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
        }
    }
}
