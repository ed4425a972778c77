//! Functions of one element.

use crate::element::Float;
use crate::kernel::math::{self, Exponential, Gelu, GeluTanh, Sigmoid, Silu, Tanh};
use crate::kernel::pointwise::{self, Backward, Pointwise};
use crate::ops::pairs::{product, quotient};
use crate::shape::Shape;
use crate::tensor::{AnyTensor, Tensor};
use num_traits::{Float as Real, One, Zero};
use std::ops::Neg;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident;)+) => {
        impl<S: Shape, E: Float> Tensor<S, E> { $(
            $(#[$doc])*
            pub fn $name(&self) -> Self {
                Tensor::typed(self.shape(), self.any().$name())
            }
        )+ }
    };
}
unary! {
    /// The natural logarithm; −∞ at 0, NaN below.
    ln;
    /// The square root; NaN below 0.
    sqrt;
    /// |x|; its gradient at 0 is 0.
    abs;
    /// −x.
    neg;
    /// max(x, 0); its gradient at 0 is 0.
    relu;
    /// eˣ.
    ///
    /// # Numerics
    /// Within 2 units in the last place for f32.
    exp;
    /// The hyperbolic tangent.
    ///
    /// # Numerics
    /// Within 3 units in the last place for f32.
    tanh;
    /// x · Φ(x), where Φ is the normal distribution's cumulative function: the exact GELU.
    ///
    /// # Numerics
    /// For f32 within 4 units in the last place from −1 on, and within 10 in the tail below; what is below
    /// 10⁻³⁶ may be 0.
    ///
    /// # References
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, equation 1.
    gelu;
    /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))): the approximate GELU.
    ///
    /// # References
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2.
    gelu_tanh;
    /// x · σ(x), also called swish.
    ///
    /// # Numerics
    /// Within 4 units in the last place for f32; what is below 10⁻³⁶ may be 0.
    silu;
    /// σ(x) = 1 / (1 + e⁻ˣ).
    ///
    /// # Numerics
    /// Within 4 units in the last place for f32; what is below 10⁻³⁶ may be 0.
    sigmoid;
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// Each element moved to the nearest number in `low..=high`; NaN stays NaN. What was moved has
    /// gradient 0.
    pub fn clamp(&self, low: f64, high: f64) -> Self {
        Tensor::typed(self.shape(), self.any().clamp(E::from_f64(low), E::from_f64(high)))
    }
}

// The loops and the rules, in functions that know no shape, so that they are compiled once for all
// shapes. A rule keeps the argument or the value, whichever the gradient is simpler of.
impl<E: Float> AnyTensor<E> {
    fn ln(&self) -> Self {
        self.map_wide(Real::ln).recorded_from(self, || self.keep(quotient))
    }

    fn sqrt(&self) -> Self {
        let half = |g, y| g / (y + y);
        self.map_wide(Real::sqrt).recorded_with(self, |y| y.keep(half))
    }

    fn abs(&self) -> Self {
        let zero = E::Wide::zero();
        let signed = move |g: E::Wide, x| match () {
            () if x > zero => g,
            () if x < zero => -g,
            () => zero,
        };
        self.map_wide(Real::abs).recorded_from(self, || self.keep(signed))
    }

    fn neg(&self) -> Self {
        self.map_wide(Neg::neg).recorded_from(self, || |g: &Self| g.map_wide(Neg::neg))
    }

    fn relu(&self) -> Self {
        let passed = |g, y| if y <= E::Wide::zero() { E::Wide::zero() } else { g };
        self.map_wide(math::relu).recorded_with(self, |y| y.keep(passed))
    }

    fn exp(&self) -> Self {
        self.pointwise(Exponential).recorded_with(self, |y| y.keep(product))
    }

    fn tanh(&self) -> Self {
        let slope = |g: E::Wide, y: E::Wide| g * (E::Wide::one() - y * y);
        self.pointwise(Tanh).recorded_with(self, |y| y.keep(slope))
    }

    fn sigmoid(&self) -> Self {
        let slope = |g: E::Wide, y: E::Wide| g * (y * (E::Wide::one() - y));
        self.pointwise(Sigmoid).recorded_with(self, |y| y.keep(slope))
    }

    fn gelu(&self) -> Self {
        self.activated(Gelu)
    }

    fn gelu_tanh(&self) -> Self {
        self.activated(GeluTanh)
    }

    fn silu(&self) -> Self {
        self.activated(Silu)
    }

    fn activated<F>(&self, f: F) -> Self
    where
        F: Pointwise<E::Wide> + Backward<E::Wide> + Send + 'static,
    {
        self.pointwise(f).recorded_from(self, || {
            let x = self.detached();
            move |g| Self::from_packed(x.dims(), pointwise::backward(x.view(), g.view(), f))
        })
    }

    fn clamp(&self, low: E, high: E) -> Self {
        let (low, high) = (low.wide(), high.wide());
        let clamped = self.map_wide(move |x| math::clamped(x, low, high));
        let passed = move |g, x| if x < low || x > high { E::Wide::zero() } else { g };
        clamped.recorded_from(self, || self.keep(passed))
    }

    /// The rule that makes of a gradient and this tensor's element what `f` says.
    fn keep<F>(&self, f: F) -> impl Fn(&Self) -> Self + Send + Sync + 'static + use<E, F>
    where
        F: Fn(E::Wide, E::Wide) -> E::Wide + Send + Sync + 'static,
    {
        let kept = self.detached();
        move |g| g.paired(&kept, &f)
    }

    fn pointwise(&self, f: impl Pointwise<E::Wide>) -> Self {
        AnyTensor::from_packed(self.dims(), pointwise::map(self.view(), f))
    }

    fn pointwise_in_place(&mut self, f: impl Pointwise<E::Wide>) {
        let in_place = |elements: &mut [E]| pointwise::map_in_place(elements, f);
        self.update(in_place, |view| pointwise::map(view, f));
    }
}

/// Named so that generic code can be told which activation to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
        Tensor::typed(x.shape(), self.of_any(x.any()))
    }

    /// As [`of`](Self::of), without the shape.
    pub(crate) fn of_any<E: Float>(self, x: &AnyTensor<E>) -> AnyTensor<E> {
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

    /// Multiplies gradients by the activation's slope at elements, on the calling thread.
    pub(crate) fn slope_of_slice<E: Float>(self) -> fn(&[E], &mut [E]) {
        match self {
            Activation::Relu => |x, g| {
                for (g, x) in g.iter_mut().zip(x) {
                    *g = if *x <= E::default() { E::default() } else { *g };
                }
            },
            Activation::Gelu => |x, g| pointwise::apply_backward(x, g, Gelu),
            Activation::GeluTanh => |x, g| pointwise::apply_backward(x, g, GeluTanh),
            Activation::Silu => |x, g| pointwise::apply_backward(x, g, Silu),
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
        if x.any().is_recorded() {
            *x = self.of(x);
            return;
        }
        let x = x.any_mut();
        match self {
            Activation::Relu => x.map_wide_in_place(math::relu),
            Activation::Gelu => x.pointwise_in_place(Gelu),
            Activation::GeluTanh => x.pointwise_in_place(GeluTanh),
            Activation::Silu => x.pointwise_in_place(Silu),
        }
    }
}
