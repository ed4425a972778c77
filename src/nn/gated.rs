//! The gated feed-forward block.

use super::{BiasKind, Dropout, Linear, Mode, Module, NoBias, Packing};
use crate::axis::{Hidden, Model};
use crate::element::Float;
use crate::kernel::gated::gate_in_place;
use crate::kernel::linear::Projection;
use crate::ops::Activation;
use crate::parameters;
use crate::shape::EndsWith;
use crate::size::{Size, Static};
use crate::tensor::{AnyTensor, Generator, Tensor};
use std::sync::Arc;

/// down(activation(gate(x)) ⊙ up(x)), from width M to F and back.
///
/// With [`Activation::Silu`] it is SwiGLU, with [`Activation::Gelu`] or [`Activation::GeluTanh`] GeGLU,
/// with [`Activation::Relu`] ReGLU.
///
/// # Shapes
/// `x` ends with `Model<M>`; the result has its shape.
///
/// # Numerics
/// Gate and up are one matrix product; the packed copy of both weights is made at first use.
///
/// # Compile errors
/// `gated_feed_forward_must_fit_the_width`.
///
/// # Examples
/// ```
/// use shapeproof::{Activation, Batch, GatedFeedForward, Infer, Linear, Model, Seq, Tensor, C};
///
/// let [gate, up] = [2.0, 3.0].map(|value| Linear::without_bias(Tensor::full(value)));
/// let down = Linear::without_bias(Tensor::ones());
/// let block = GatedFeedForward::<C<1>, C<1>>::of(gate, up, down, Activation::Relu);
/// let x = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<1>>)>::from([[[5.0], [-5.0]]]);
/// assert_eq!(block.forward(&x, &mut Infer).to_vec(), [150.0, 0.0]);
/// ```
///
/// # References
/// Shazeer, "GLU Variants Improve Transformer", 2020, equation 6: its W, V and W₂ are `gate`, `up` and
/// `down`.
pub struct GatedFeedForward<M, F, B: BiasKind = NoBias, E = f32> {
    /// From the model width to the inner one, in front of the activation.
    pub gate: Linear<Model<M>, Hidden<F>, B, E>,
    /// From the model width to the inner one.
    pub up: Linear<Model<M>, Hidden<F>, B, E>,
    /// Back to the model width.
    pub down: Linear<Hidden<F>, Model<M>, B, E>,
    /// What becomes of the gate.
    pub activation: Activation,
    /// Acts in front of `down`, in training.
    pub dropout: Dropout,
    packing: Packing<E>,
}

impl<M: Size, F: Size, B: BiasKind, E: Float> GatedFeedForward<M, F, B, E> {
    /// A block of zeros, to be loaded.
    pub fn zeros(activation: Activation) -> Self
    where
        M: Static,
        F: Static,
    {
        Self::of(Linear::zeros(), Linear::zeros(), Linear::zeros(), activation)
    }

    /// A block with weights drawn by Xavier's rule.
    pub fn xavier(activation: Activation, generator: &mut Generator) -> Self
    where
        M: Static,
        F: Static,
    {
        let (gate, up) = (Linear::xavier(generator), Linear::xavier(generator));
        Self::of(gate, up, Linear::xavier(generator), activation)
    }

    /// A block of these maps.
    pub fn of(
        gate: Linear<Model<M>, Hidden<F>, B, E>,
        up: Linear<Model<M>, Hidden<F>, B, E>,
        down: Linear<Hidden<F>, Model<M>, B, E>,
        activation: Activation,
    ) -> Self {
        let (dropout, packing) = (Dropout::NONE, Packing::default());
        GatedFeedForward { gate, up, down, activation, dropout, packing }
    }

    /// down(activation(gate(x)) ⊙ up(x)).
    pub fn forward<S>(&self, x: &Tensor<S, E>, mode: &mut impl Mode) -> Tensor<S, E>
    where
        S: EndsWith<(Model<M>,)>,
        S::WithTail<Hidden<F>>: EndsWith<(Hidden<F>,), WithTail<Model<M>> = S>,
    {
        let hidden = gated(x.any(), &self.fused(mode), self.activation.of_slice());
        let shape = x.shape().with_tail(self.up.weight.shape().1);
        let hidden = self.dropout.of(Tensor::typed(shape, hidden), mode);
        self.down.forward(&hidden, mode)
    }

    /// x · (W_gate | W_up) + (b_gate | b_up) as one map.
    fn fused(&self, mode: &mut impl Mode) -> Arc<Projection<E>> {
        let (gate, up) = (mode.read(&self.gate.weight), mode.read(&self.up.weight));
        let biases = [&self.gate.bias, &self.up.bias].map(|bias| B::get(bias));
        let biases = biases.map(|bias| bias.map(|bias| mode.read(bias)));
        let [b_gate, b_up] = biases.each_ref().map(|bias| bias.as_ref().map(Tensor::any));
        self.packing.of(&[(gate.any(), b_gate), (up.any(), b_up)])
    }
}

/// activation(gates) ⊙ ups, for the gates and ups that `fused` gives side by side: a view of every
/// row's first half.
fn gated<E: Float>(
    x: &AnyTensor<E>,
    fused: &Projection<E>,
    activation: fn(&mut [E]),
) -> AnyTensor<E> {
    let (last, both) = (x.rank() - 1, fused.weight.dims().1);
    let mut hidden = fused.apply(x.view(), None);
    gate_in_place(&mut hidden, both / 2, activation);
    let hidden = AnyTensor::from_packed(&x.layout().dims.replaced(last, both), hidden);
    hidden.viewed(hidden.layout().sliced(last, 0, both / 2))
}

#[diagnostic::do_not_recommend]
impl<M: Size, F: Size, B: BiasKind, E: Float> Module for GatedFeedForward<M, F, B, E> {
    parameters!(gate, up, down);
}
