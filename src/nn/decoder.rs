//! The decoder layer, and the stack of them.

use super::encoder::around_block;
use super::{Bias, Dropout, EncoderConfig, FeedForward, LayerNorm, Mode, Module, NormPlacement};
use crate::attention::{AttentionBias, Causal, MaskFor, MultiHeadAttention};
use crate::axis::{Batch, Heads, Key, Model, Query, Seq};
use crate::element::Float;
use crate::parameters;
use crate::size::{DivisibleBy, Size, Static};
use crate::tensor::{Generator, Tensor};

/// What a decoder layer is besides its sizes and parameters: the same as an encoder layer.
pub type DecoderConfig = EncoderConfig;

/// Causal self attention, cross attention to an encoder's output and a feed-forward block, each with a
/// norm and a residual connection.
///
/// `KM` is the width of what it attends to. Self attention is [`Causal`] whatever the masks say: a mask is
/// joined to it, and cannot replace it.
///
/// # Shapes
/// `(Batch, Seq<S>, Model<M>)` in and out, beside a memory over `(Batch, Seq<K>, Model<KM>)`.
///
/// # Compile errors
/// `heads_of_a_decoder_layer_must_divide_the_width`, `memory_of_a_decoder_must_fit_its_width`,
/// `mask_of_a_decoders_memory_must_cover_its_keys`.
///
/// # Examples
/// ```
/// use shapeproof::{
///     Batch, DecoderConfig, DecoderLayer, Generator, Infer, Model, NoMask, Seq, Tensor, C,
/// };
///
/// let mut generator = Generator::seeded(1);
/// let layer = DecoderLayer::<C<8>, C<2>, C<16>>::xavier(DecoderConfig::new(1e-5), &mut generator);
/// let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
/// let memory = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
/// let y = layer.forward(&x, &memory, NoMask, NoMask, &mut Infer);
/// assert_eq!(y.shape(), x.shape());
/// ```
///
/// # References
/// Vaswani et al., "Attention Is All You Need", 2017, section 3.1; for the norm before the block,
/// Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020.
pub struct DecoderLayer<M: Size, H, F, KM = M, B: AttentionBias = Bias, E = f32> {
    /// Self attention.
    pub attention: MultiHeadAttention<M, H, M, M, B, E>,
    /// The norm of the self attention block.
    pub attention_norm: LayerNorm<Model<M>, E>,
    /// Attention to the memory.
    pub cross_attention: MultiHeadAttention<M, H, KM, KM, B, E>,
    /// The norm of the cross attention block.
    pub cross_attention_norm: LayerNorm<Model<M>, E>,
    /// The feed-forward block.
    pub feed_forward: FeedForward<M, F, B::Out, E>,
    /// The norm of the feed-forward block.
    pub feed_forward_norm: LayerNorm<Model<M>, E>,
    /// Where the norms stand.
    pub norm: NormPlacement,
    /// Acts on the output of all blocks, in training.
    pub dropout: Dropout,
}

impl<M: Size, H, F, KM, B: AttentionBias, E: Float> DecoderLayer<M, H, F, KM, B, E> {
    /// A layer of zeros, to be loaded.
    pub fn zeros(config: DecoderConfig) -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
        F: Static,
        KM: Static,
    {
        let feed_forward = FeedForward::zeros(config.activation);
        Self::of(config, MultiHeadAttention::zeros(), MultiHeadAttention::zeros(), feed_forward)
    }

    /// A layer with weights drawn by Xavier's rule.
    pub fn xavier(config: DecoderConfig, generator: &mut Generator) -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
        F: Static,
        KM: Static,
    {
        let attention = MultiHeadAttention::xavier(generator);
        let cross_attention = MultiHeadAttention::xavier(generator);
        let feed_forward = FeedForward::xavier(config.activation, generator);
        Self::of(config, attention, cross_attention, feed_forward)
    }

    fn of(
        config: DecoderConfig,
        attention: MultiHeadAttention<M, H, M, M, B, E>,
        cross_attention: MultiHeadAttention<M, H, KM, KM, B, E>,
        feed_forward: FeedForward<M, F, B::Out, E>,
    ) -> Self
    where
        M: Static,
    {
        DecoderLayer {
            attention,
            attention_norm: LayerNorm::new(config.epsilon),
            cross_attention,
            cross_attention_norm: LayerNorm::new(config.epsilon),
            feed_forward: FeedForward { dropout: config.dropout, ..feed_forward },
            feed_forward_norm: LayerNorm::new(config.epsilon),
            norm: config.norm,
            dropout: config.dropout,
        }
    }

    /// The layer's output. `mask` is joined to the causal one of self attention; `memory_mask` says what of
    /// the memory may be seen.
    pub fn forward<Z: Size, S: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        memory: &Tensor<(Batch<Z>, Seq<K>, Model<KM>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        memory_mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E>
    where
        M: Static,
        H: Static,
        F: Static,
        KM: Static,
    {
        let x = self.around(x, &self.attention_norm, mode, |x, mode| {
            self.attention.forward(x, Causal & mask, mode)
        });
        let x = self.around(&x, &self.cross_attention_norm, mode, |x, mode| {
            self.cross_attention.cross(x, memory, memory, memory_mask, mode)
        });
        self.around(&x, &self.feed_forward_norm, mode, |x, mode| self.feed_forward.forward(x, mode))
    }

    /// The norm and the residual connection around `block`.
    fn around<Z: Size, S: Size, Mo: Mode>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        norm: &LayerNorm<Model<M>, E>,
        mode: &mut Mo,
        block: impl FnOnce(
            &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
            &mut Mo,
        ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E> {
        let around = (self.norm, self.dropout);
        around_block(around, norm, x, mode, |x, mode| (block(x, mode), ())).0
    }
}

#[diagnostic::do_not_recommend]
impl<M: Size, H, F: Size, KM: Size, B: AttentionBias, E: Float> Module
    for DecoderLayer<M, H, F, KM, B, E>
{
    parameters!(
        attention,
        attention_norm,
        cross_attention,
        cross_attention_norm,
        feed_forward,
        feed_forward_norm,
    );
}

/// Decoder layers in a row, and a norm at the end where the layers' norms stand before their blocks.
///
/// # Shapes
/// As [`DecoderLayer`].
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Decoder, DecoderConfig, DecoderLayer, Infer, Model, NoMask, Seq, Tensor, C};
///
/// let layer = || DecoderLayer::<C<8>, C<2>, C<16>>::zeros(DecoderConfig::new(1e-5));
/// let decoder = Decoder::new(vec![layer(), layer()]);
/// let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<8>>)>::ones();
/// let memory = Tensor::<(Batch<C<1>>, Seq<C<5>>, Model<C<8>>)>::ones();
/// let y = decoder.forward(&x, &memory, NoMask, NoMask, &mut Infer);
/// assert_eq!((decoder.len(), y), (2, Tensor::zeros()));
/// ```
pub struct Decoder<M: Size, H, F, KM = M, B: AttentionBias = Bias, E = f32> {
    layers: Vec<DecoderLayer<M, H, F, KM, B, E>>,
    /// The norm behind the last layer, where there is one.
    pub norm: Option<LayerNorm<Model<M>, E>>,
}

impl<M: Size, H, F, KM, B: AttentionBias, E: Float> Decoder<M, H, F, KM, B, E> {
    /// These layers, one after the other.
    pub fn new(layers: Vec<DecoderLayer<M, H, F, KM, B, E>>) -> Self {
        Decoder { layers, norm: None }
    }

    /// With a norm behind the last layer.
    pub fn with_norm(mut self, norm: LayerNorm<Model<M>, E>) -> Self {
        self.norm = Some(norm);
        self
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there is no layer.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The layers, in order.
    pub fn iter(&self) -> impl Iterator<Item = &DecoderLayer<M, H, F, KM, B, E>> {
        self.layers.iter()
    }

    /// The output of the last layer. The memory and the masks are used in every layer.
    pub fn forward<Z: Size, S: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        memory: &Tensor<(Batch<Z>, Seq<K>, Model<KM>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        memory_mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E>
    where
        M: Static,
        H: Static,
        F: Static,
        KM: Static,
    {
        let mut x = x.clone();
        for layer in self.iter() {
            x = layer.forward(&x, memory, &mask, &memory_mask, mode);
        }
        match &self.norm {
            Some(norm) => norm.forward(&x, mode),
            None => x,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<M: Size, H, F: Size, KM: Size, B: AttentionBias, E: Float> Module
    for Decoder<M, H, F, KM, B, E>
{
    parameters!(layers, norm);
}
