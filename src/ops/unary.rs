//! Functions of one element.

use crate::element::Float;
use crate::kernel::math::{self, Exponential, Gelu, GeluTanh, Sigmoid, Silu, Tanh};
use crate::kernel::pointwise::{self, Pointwise};
use crate::shape::Shape;
use crate::tensor::{AnyTensor, Tensor};
use num_traits::Float as Real;
use std::ops::Neg;

macro_rules! unary {
    ($by:ident: $($(#[$doc:meta])* $name:ident $f:expr;)+) => {
        impl<S: Shape, E: Float> Tensor<S, E> { $(
            $(#[$doc])*
            pub fn $name(&self) -> Self {
                Tensor::typed(self.shape(), self.any().$by($f))
            }
        )+ }
    };
}
unary! { map_wide:
    /// The natural logarithm; −∞ at 0, NaN below.
    ln Real::ln;
    /// The square root; NaN below 0.
    sqrt Real::sqrt;
    /// |x|.
    abs Real::abs;
    /// −x.
    neg Neg::neg;
    /// max(x, 0).
    relu math::relu;
}
unary! { pointwise:
    /// eˣ.
    ///
    /// # Numerics
    /// Within 2 units in the last place for f32.
    exp Exponential;
    /// The hyperbolic tangent.
    ///
    /// # Numerics
    /// Within 3 units in the last place for f32.
    tanh Tanh;
    /// x · Φ(x), where Φ is the normal distribution's cumulative function: the exact GELU.
    ///
    /// # Numerics
    /// For f32 within 4 units in the last place from −1 on, and within 10 in the tail below; what is below
    /// 10⁻³⁶ may be 0.
    ///
    /// # References
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, equation 1.
    gelu Gelu;
    /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))): the approximate GELU.
    ///
    /// # References
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2.
    gelu_tanh GeluTanh;
    /// x · σ(x), also called swish.
    ///
    /// # Numerics
    /// Within 4 units in the last place for f32; what is below 10⁻³⁶ may be 0.
    silu Silu;
    /// σ(x) = 1 / (1 + e⁻ˣ).
    ///
    /// # Numerics
    /// Within 4 units in the last place for f32; what is below 10⁻³⁶ may be 0.
    sigmoid Sigmoid;
}

impl<S: Shape, E: Float> Tensor<S, E> {
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

    fn pointwise(&self, f: impl Pointwise<E::Wide>) -> Self {
        AnyTensor::from_packed(self.dims(), pointwise::map(self.view(), f))
    }

    fn relu_in_place(&mut self) {
        self.map_in_place(|x| E::narrow(math::relu(x.wide())));
    }

    fn pointwise_in_place(&mut self, f: impl Pointwise<E::Wide>) {
        let in_place = |elements: &mut [E]| pointwise::map_in_place(elements, f);
        self.update(in_place, |view| pointwise::map(view, f));
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

    /// Puts the activation of elements in their place, on the calling thread.
    pub(crate) fn of_slice<E: Float>(self) -> fn(&mut [E]) {
        match self {
            Activation::Relu => |x| x.iter_mut().for_each(|x| *x = E::narrow(math::relu(x.wide()))),
            Activation::Gelu => |x| pointwise::apply(x, Gelu),
            Activation::GeluTanh => |x| pointwise::apply(x, GeluTanh),
            Activation::Silu => |x| pointwise::apply(x, Silu),
        }
    }

    /// Puts the activation of every element in its place. Takes no new memory, unless the elements are
    /// shared with another tensor, which keeps them, or lie in memory out of order.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Activation, Key, Tensor, C};
    ///
    /// let mut x = Tensor::<(Key<C<3>>,)>::from([-1.0, 0.0, 2.0]);
    /// Activation::Relu.apply_in_place(&mut x);
    /// assert_eq!(x.to_vec(), [0.0, 0.0, 2.0]);
    /// ```
    pub fn apply_in_place<S: Shape, E: Float>(self, x: &mut Tensor<S, E>) {
        let x = x.any_mut();
        match self {
            Activation::Relu => x.relu_in_place(),
            Activation::Gelu => x.pointwise_in_place(Gelu),
            Activation::GeluTanh => x.pointwise_in_place(GeluTanh),
            Activation::Silu => x.pointwise_in_place(Silu),
        }
    }
}
