//! How parameters begin.

use super::Parameter;
use crate::axis::Axis;
use crate::element::Float;
use crate::shape::Shape;
use crate::size::Size;
use crate::tensor::{Generator, Tensor};

/// How many numbers each output of a linear map is made of, and each input goes into.
///
/// Of several maps that one parameter holds side by side, each has fans of its own: those of a fused
/// q, k, v over `(in, 3 · out)` are `in` and `out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fans {
    /// The inputs of one output.
    pub input: usize,
    /// The outputs of one input.
    pub output: usize,
}

impl Fans {
    /// Of a weight over (in, out).
    pub fn of<I: Axis, O: Axis, E: Float>(weight: &Parameter<(I, O), E>) -> Self {
        let (input, output) = weight.shape();
        Fans { input: input.size().get(), output: output.size().get() }
    }
}

/// Random weights whose spread keeps activations, or gradients, of one size from layer to layer.
///
/// | rule | variance |
/// |---|---|
/// | Xavier | gain² · 2 / (in + out) |
/// | Kaiming | gain² / in, or with [`by_output`](Self::by_output) gain² / out |
///
/// Uniform weights lie within ±√(3 · variance), normal ones have no bound.
///
/// # Numerics
/// Drawn in f64 and rounded, in row-major order: the same numbers on every machine, and but for the
/// rounding for every element.
///
/// # Examples
/// ```
/// use shapeproof::{Fans, Generator, Hidden, Init, Linear, Model, C};
///
/// let mut generator = Generator::seeded(7);
/// let mut up = Linear::<Model<C<64>>, Hidden<C<256>>>::zeros();
/// Init::kaiming_normal().draw(&mut up.weight, &mut generator);
///
/// // A fused q, k, v: each begins as if it stood alone.
/// let mut fused = Linear::<Model<C<256>>, Hidden<C<768>>>::zeros();
/// let fans = Fans { input: 256, output: 256 };
/// Init::xavier_uniform().draw_with(fans, &mut fused.weight, &mut generator);
/// let largest = fused.weight.value().to_vec().iter().fold(0.0f32, |max, x| max.max(x.abs()));
/// assert!(0.108 < largest && largest < 0.108254); // √(6 / 512)
/// ```
///
/// # References
/// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010,
/// equations 12 and 16; He et al., "Delving Deep into Rectifiers", 2015, equations 10 and 14.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Init {
    rule: Rule,
    spread: Spread,
    gain: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Xavier,
    KaimingByInput,
    KaimingByOutput,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    Uniform,
    Normal,
}

impl Init {
    /// Uniform within ±gain · √(6 / (in + out)); the gain is 1 unless another is given.
    pub fn xavier_uniform() -> Self {
        Init { rule: Rule::Xavier, spread: Spread::Uniform, gain: 1.0 }
    }

    /// Normal, of standard deviation gain · √(2 / (in + out)); the gain is 1 unless another is given.
    pub fn xavier_normal() -> Self {
        Init { spread: Spread::Normal, ..Self::xavier_uniform() }
    }

    /// Uniform within ±gain · √(3 / in); the gain is √2, that of ReLU, unless another is given.
    pub fn kaiming_uniform() -> Self {
        Init { rule: Rule::KaimingByInput, spread: Spread::Uniform, gain: 2.0_f64.sqrt() }
    }

    /// Normal, of standard deviation gain / √in; the gain is √2, that of ReLU, unless another is given.
    pub fn kaiming_normal() -> Self {
        Init { spread: Spread::Normal, ..Self::kaiming_uniform() }
    }

    /// With this gain, which makes up for what the activation behind the map takes away: 1 for none and
    /// the sigmoid, 5/3 for tanh, √2 for ReLU. GELU and SiLU have no number that is agreed on, and usually
    /// that of ReLU, which they approach.
    pub fn gain(self, gain: f64) -> Self {
        Init { gain, ..self }
    }

    /// By the outputs of one input, for Kaiming's rule: it is then the gradients whose size is kept. By
    /// Xavier's rule, which takes both, nothing changes.
    pub fn by_output(self) -> Self {
        match self.rule {
            Rule::Xavier => self,
            _ => Init { rule: Rule::KaimingByOutput, ..self },
        }
    }

    /// The standard deviation of weights of these fans. A fan of 0 counts as 1.
    #[allow(clippy::cast_precision_loss, reason = "a deviation needs no more than 53 bits")]
    pub fn deviation(&self, fans: Fans) -> f64 {
        let (input, output) = (fans.input.max(1) as f64, fans.output.max(1) as f64);
        let variance = match self.rule {
            Rule::Xavier => 2.0 / (input + output),
            Rule::KaimingByInput => 1.0 / input,
            Rule::KaimingByOutput => 1.0 / output,
        };
        self.gain * variance.sqrt()
    }

    /// Draws the weight of a linear map, with the fans of its axes.
    pub fn draw<I: Axis, O: Axis, E: Float>(
        &self,
        weight: &mut Parameter<(I, O), E>,
        generator: &mut Generator,
    ) {
        self.draw_with(Fans::of(weight), weight, generator);
    }

    /// Draws a parameter of any shape, with fans that the caller knows.
    pub fn draw_with<S: Shape, E: Float>(
        &self,
        fans: Fans,
        parameter: &mut Parameter<S, E>,
        generator: &mut Generator,
    ) {
        parameter.set(self.drawn(parameter.shape(), fans, generator));
    }

    pub(super) fn drawn<S: Shape, E: Float>(
        &self,
        shape: S,
        fans: Fans,
        generator: &mut Generator,
    ) -> Tensor<S, E> {
        let deviation = self.deviation(fans);
        match self.spread {
            Spread::Normal => Tensor::normal_in(shape, 0.0, deviation, generator),
            Spread::Uniform => {
                let bound = 3.0_f64.sqrt() * deviation;
                Tensor::uniform_in(shape, -bound, bound, generator)
            }
        }
    }
}
