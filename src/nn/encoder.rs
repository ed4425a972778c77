//! The encoder layer, and the stack of them.

use super::{Bias, Dropout, FeedForward, LayerNorm, Mode, Module};
use crate::attention::{AttentionBias, MaskFor, MultiHeadAttention};
use crate::axis::{Batch, Heads, Key, Model, Query, Seq};
use crate::element::Float;
use crate::ops::Activation;
use crate::parameters;
use crate::size::{DivisibleBy, Size, Static};
use crate::tensor::{Generator, Tensor};

/// Where the norms of an encoder layer stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NormPlacement {
    /// Behind each addition: x = norm(x + attention(x)), as in the original paper and BERT.
    #[default]
    Post,
    /// Before each block: x = x + attention(norm(x)), as in GPT-2.
    Pre,
}

/// What an encoder layer is besides its sizes and parameters.
///
/// ε has no default: it is part of the model that is loaded, and the wrong one goes unnoticed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EncoderConfig {
    /// Where the norms stand.
    pub norm: NormPlacement,
    /// The activation of the feed-forward block.
    pub activation: Activation,
    /// The ε of the norms.
    pub epsilon: f64,
    /// Acts on the output of both blocks and within the feed-forward one, in training.
    pub dropout: Dropout,
}

impl EncoderConfig {
    /// Norms behind the additions, ReLU, no dropout.
    pub fn new(epsilon: f64) -> Self {
        EncoderConfig {
            norm: NormPlacement::Post,
            activation: Activation::Relu,
            epsilon,
            dropout: Dropout::NONE,
        }
    }
}

/// Self attention and a feed-forward block, each with a norm and a residual connection.
///
/// # Shapes
/// `(Batch, Seq, Model<M>)` in and out.
///
/// # Examples
/// ```
/// use shapeproof::{
///     Batch, EncoderConfig, EncoderLayer, Generator, Infer, Model, NoMask, Seq, Tensor, C,
/// };
///
/// let mut generator = Generator::seeded(1);
/// let layer = EncoderLayer::<C<8>, C<2>, C<16>>::xavier(EncoderConfig::new(1e-5), &mut generator);
/// let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
/// assert_eq!(layer.forward(&x, NoMask, &mut Infer).shape(), x.shape());
/// ```
///
/// # References
/// Vaswani et al., "Attention Is All You Need", 2017, section 3.1; for the norm before the block,
/// Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020.
pub struct EncoderLayer<M: Size, H, F, B: AttentionBias = Bias, E = f32> {
    /// Self attention.
    pub attention: MultiHeadAttention<M, H, M, M, B, E>,
    /// The norm of the attention block.
    pub attention_norm: LayerNorm<Model<M>, E>,
    /// The feed-forward block.
    pub feed_forward: FeedForward<M, F, B::Out, E>,
    /// The norm of the feed-forward block.
    pub feed_forward_norm: LayerNorm<Model<M>, E>,
    /// Where the norms stand.
    pub norm: NormPlacement,
    /// Acts on the output of both blocks, in training.
    pub dropout: Dropout,
}

impl<M: Size, H, F, B: AttentionBias, E: Float> EncoderLayer<M, H, F, B, E> {
    /// A layer of zeros, to be loaded.
    ///
    /// # Compile errors
    /// `heads_of_an_encoder_layer_must_divide_the_width`.
    pub fn zeros(config: EncoderConfig) -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
        F: Static,
    {
        let feed_forward = FeedForward::zeros(config.activation);
        Self::of(config, MultiHeadAttention::zeros(), feed_forward)
    }

    /// A layer with weights drawn by Xavier's rule.
    pub fn xavier(config: EncoderConfig, generator: &mut Generator) -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
        F: Static,
    {
        let attention = MultiHeadAttention::xavier(generator);
        Self::of(config, attention, FeedForward::xavier(config.activation, generator))
    }

    fn of(
        config: EncoderConfig,
        attention: MultiHeadAttention<M, H, M, M, B, E>,
        feed_forward: FeedForward<M, F, B::Out, E>,
    ) -> Self
    where
        M: Static,
    {
        EncoderLayer {
            attention,
            attention_norm: LayerNorm::new(config.epsilon),
            feed_forward: FeedForward { dropout: config.dropout, ..feed_forward },
            feed_forward_norm: LayerNorm::new(config.epsilon),
            norm: config.norm,
            dropout: config.dropout,
        }
    }

    /// The layer's output.
    pub fn forward<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E>
    where
        M: Static,
        H: Static,
        F: Static,
    {
        self.around(x, mode, |x, mode| (self.attention.forward(x, mask, mode), ())).0
    }

    /// The layer's output, and the attention weights of each head.
    pub fn forward_with_weights<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> (Tensor<(Batch<Z>, Seq<S>, Model<M>), E>, Tensor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>)
    where
        M: Static,
        H: Static,
        F: Static,
    {
        self.around(x, mode, |x, mode| self.attention.forward_with_weights(x, mask, mode))
    }

    /// The norms, residual connections and the feed-forward block around `attend`.
    fn around<Z: Size, S: Size, W, Mo: Mode>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mode: &mut Mo,
        attend: impl FnOnce(
            &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
            &mut Mo,
        ) -> (Tensor<(Batch<Z>, Seq<S>, Model<M>), E>, W),
    ) -> (Tensor<(Batch<Z>, Seq<S>, Model<M>), E>, W)
    where
        M: Static,
        H: Static,
        F: Static,
    {
        let (norm, dropout) = (self.norm, self.dropout);
        let (x, rest) = around_block((norm, dropout), &self.attention_norm, x, mode, attend);
        around_block((norm, dropout), &self.feed_forward_norm, &x, mode, |x, mode| {
            (self.feed_forward.forward(x, mode), rest)
        })
    }
}

/// A residual connection around a block, with the norm where it is placed; and what else the block gives.
pub(super) fn around_block<Z: Size, S: Size, M: Size, E: Float, W, Mo: Mode>(
    (placement, dropout): (NormPlacement, Dropout),
    norm: &LayerNorm<Model<M>, E>,
    x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
    mode: &mut Mo,
    block: impl FnOnce(
        &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        &mut Mo,
    ) -> (Tensor<(Batch<Z>, Seq<S>, Model<M>), E>, W),
) -> (Tensor<(Batch<Z>, Seq<S>, Model<M>), E>, W) {
    match placement {
        NormPlacement::Post => {
            let (y, rest) = block(x, mode);
            let mut x = residual(dropout, x, y, mode);
            norm.apply_in_place(&mut x, mode);
            (x, rest)
        }
        NormPlacement::Pre => {
            let (y, rest) = block(&norm.forward(x, mode), mode);
            (residual(dropout, x, y, mode), rest)
        }
    }
}

/// x + dropout(y), in the memory of y.
fn residual<Z: Size, S: Size, M: Size, E: Float>(
    dropout: Dropout,
    x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
    y: Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
    mode: &mut impl Mode,
) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E> {
    let mut y = dropout.of(y, mode);
    y.add_in_place(x);
    y
}

#[diagnostic::do_not_recommend]
impl<M: Size, H, F: Size, B: AttentionBias, E: Float> Module for EncoderLayer<M, H, F, B, E> {
    parameters!(attention, attention_norm, feed_forward, feed_forward_norm);
}

/// Encoder layers in a row: each with parameters of its own, or one set shared by all (as ALBERT
/// does), and a norm at the end where the layers' norms stand before their blocks.
///
/// # Shapes
/// `(Batch, Seq, Model<M>)` in and out.
///
/// # Examples
/// ```
/// use shapeproof::{count_parameters, Encoder, EncoderConfig, EncoderLayer, C};
///
/// let layer = || EncoderLayer::<C<8>, C<2>, C<16>>::zeros(EncoderConfig::new(1e-5));
/// let three = Encoder::new(vec![layer(), layer(), layer()]);
/// let shared = Encoder::shared(layer(), 3);
/// assert_eq!((three.len(), shared.len()), (3, 3));
/// assert_eq!(count_parameters(&three), 3 * count_parameters(&shared));
/// ```
///
/// # References
/// For shared layers: Lan et al., "ALBERT", 2020, section 3.1.
pub struct Encoder<M: Size, H, F, B: AttentionBias = Bias, E = f32> {
    layers: Vec<EncoderLayer<M, H, F, B, E>>,
    repeats: usize,
    /// The norm behind the last layer, where there is one.
    pub norm: Option<LayerNorm<Model<M>, E>>,
}

impl<M: Size, H, F, B: AttentionBias, E: Float> Encoder<M, H, F, B, E> {
    /// These layers, one after the other.
    pub fn new(layers: Vec<EncoderLayer<M, H, F, B, E>>) -> Self {
        Encoder { layers, repeats: 1, norm: None }
    }

    /// One layer, applied `times` times.
    pub fn shared(layer: EncoderLayer<M, H, F, B, E>, times: usize) -> Self {
        Encoder { layers: vec![layer], repeats: times, norm: None }
    }

    /// With a norm behind the last layer.
    pub fn with_norm(mut self, norm: LayerNorm<Model<M>, E>) -> Self {
        self.norm = Some(norm);
        self
    }

    /// How many layers an input runs through.
    pub fn len(&self) -> usize {
        self.layers.len() * self.repeats
    }

    /// Whether there is no layer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The layers that an input runs through, in order; a shared one comes again and again.
    pub fn iter(&self) -> impl Iterator<Item = &EncoderLayer<M, H, F, B, E>> {
        std::iter::repeat_n(&self.layers, self.repeats).flatten()
    }

    /// The output of the last layer. The mask is used in every layer.
    pub fn forward<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E>
    where
        M: Static,
        H: Static,
        F: Static,
    {
        let mut x = x.clone();
        for layer in self.iter() {
            x = layer.forward(&x, &mask, mode);
        }
        match &self.norm {
            Some(norm) => norm.forward(&x, mode),
            None => x,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M: Size, H, F: Size, B: AttentionBias, E: Float> Module for Encoder<M, H, F, B, E> {
    parameters!(layers, norm);
}
