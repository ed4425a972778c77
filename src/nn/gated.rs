//! The gated feed-forward block.

use super::mode::is_tracing;
use super::packing::{Map, is_recorded, linear_rule, recorded};
use super::{BiasKind, Dropout, Linear, Mode, Module, NoBias, Packing};
use crate::axis::{Hidden, Model};
use crate::element::Float;
use crate::kernel::gated::{gate_backward, gate_in_place};
use crate::ops::Activation;
use crate::parameters;
use crate::shape::EndsWith;
use crate::size::{Size, Static};
use crate::tensor::{AnyTensor, Generator, Tensor};

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
        let (gate, up) = (mode.read(&self.gate.weight), mode.read(&self.up.weight));
        let biases = [&self.gate.bias, &self.up.bias].map(|bias| B::get(bias));
        let biases = biases.map(|bias| bias.map(|bias| mode.read(bias)));
        let [b_gate, b_up] = biases.each_ref().map(|bias| bias.as_ref().map(Tensor::any));
        let maps = [(gate.any(), b_gate), (up.any(), b_up)];
        let hidden = gated(x.any(), &maps, self.activation, &self.packing);
        // The fused product does not hold the two apart: once more, for those who look.
        if is_tracing(mode) {
            self.gate.forward(x, mode);
            self.up.forward(x, mode);
        }
        let shape = x.shape().with_tail(self.up.weight.shape().1);
        let hidden = self.dropout.of(Tensor::typed(shape, hidden), mode);
        self.down.forward(&hidden, mode)
    }
}

/// activation(x · W_gate + b_gate) ⊙ (x · W_up + b_up), given both maps, which are one product: a view of
/// every row's first half. Where it is recorded, what the activation saw is kept. Knows no shape, so that
/// it is compiled once for all.
fn gated<E: Float>(
    x: &AnyTensor<E>,
    maps: &[Map<E>; 2],
    activation: Activation,
    packing: &Packing<E>,
) -> AnyTensor<E> {
    let fused = packing.of(maps);
    let (last, both) = (x.rank() - 1, fused.weight.dims().1);
    let (dims, act) = (x.layout().dims.replaced(last, both), activation.of_slice());
    let mut hidden = fused.apply(x.view(), None);
    let rows = is_recorded(x, maps).then(|| hidden.clone());
    gate_in_place(&mut hidden, both / 2, act);
    let hidden = AnyTensor::from_packed(&dims, hidden);
    let hidden = hidden.viewed(hidden.layout().sliced(last, 0, both / 2));
    let Some(rows) = rows else { return hidden };
    recorded(hidden, x, maps, || {
        let of_maps = linear_rule(x, maps);
        move |g| {
            let (g, slope) = (g.to_vec(), activation.slope_of_slice());
            let data = gate_backward(&rows, &g, both / 2, act, slope);
            of_maps(&AnyTensor::from_packed(&dims, data))
        }
    })
}

#[diagnostic::do_not_recommend]
impl<M: Size, F: Size, B: BiasKind, E: Float> Module for GatedFeedForward<M, F, B, E> {
    parameters!(gate, up, down);
}
