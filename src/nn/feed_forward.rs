//! The feed-forward block.

use super::{Bias, BiasKind, Dropout, Linear, Mode, Module};
use crate::axis::{Hidden, Model};
use crate::element::Float;
use crate::ops::Activation;
use crate::parameters;
use crate::shape::EndsWith;
use crate::size::{Size, Static};
use crate::tensor::{Generator, Tensor};

/// down(activation(up(x))), from width M to F and back.
///
/// # Shapes
/// `x` ends with `Model<M>`; the result has its shape.
///
/// # Examples
/// ```
/// use shapeproof::{Activation, Batch, FeedForward, Infer, Model, Seq, Tensor, C};
///
/// let feed_forward = FeedForward::<C<4>, C<16>>::zeros(Activation::Gelu);
/// let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>)>::ones();
/// assert_eq!(feed_forward.forward(&x, &mut Infer), Tensor::zeros());
/// ```
///
/// # References
/// Vaswani et al., "Attention Is All You Need", 2017, section 3.3; F is its d_ff.
pub struct FeedForward<M, F, B: BiasKind = Bias, E = f32> {
    /// From the model width to the inner one.
    pub up: Linear<Model<M>, Hidden<F>, B, E>,
    /// Back to the model width.
    pub down: Linear<Hidden<F>, Model<M>, B, E>,
    /// What stands between them.
    pub activation: Activation,
    /// Acts behind the activation, in training.
    pub dropout: Dropout,
}

impl<M: Size, F: Size, B: BiasKind, E: Float> FeedForward<M, F, B, E> {
    /// A block of zeros, to be loaded.
    pub fn zeros(activation: Activation) -> Self
    where
        M: Static,
        F: Static,
    {
        let (up, down) = (Linear::zeros(), Linear::zeros());
        FeedForward { up, down, activation, dropout: Dropout::NONE }
    }

    /// A block with weights drawn by Xavier's rule.
    pub fn xavier(activation: Activation, generator: &mut Generator) -> Self
    where
        M: Static,
        F: Static,
    {
        let (up, down) = (Linear::xavier(generator), Linear::xavier(generator));
        FeedForward { up, down, activation, dropout: Dropout::NONE }
    }

    /// down(activation(up(x))).
    pub fn forward<S>(&self, x: &Tensor<S, E>, mode: &mut impl Mode) -> Tensor<S, E>
    where
        S: EndsWith<(Model<M>,)>,
        S::WithTail<Hidden<F>>: EndsWith<(Hidden<F>,), WithTail<Model<M>> = S>,
    {
        let hidden = self.up.activated(x, self.activation, mode);
        let hidden = self.dropout.of(hidden, mode);
        self.down.forward(&hidden, mode)
    }
}

#[diagnostic::do_not_recommend]
impl<M: Size, F: Size, B: BiasKind, E: Float> Module for FeedForward<M, F, B, E> {
    parameters!(up, down);
}
