//! A causal model of characters: two layers with the norms before their blocks, learned positions, and the
//! embedding as output head.
//!
//! Every width is a type, and batch and length are generic: any [`Size`], read at run time or not.

use shapeproof::{
    Activation, Batch, Bias, C, Causal, Embedding, Encoder, EncoderConfig, EncoderLayer, Float,
    Generator, LayerNorm, LearnedPositions, Mode, Model, Module, NormPlacement, Result, Seq, Size,
    Tensor, Vocab, parameters,
};

/// The different characters of the text.
pub(crate) type Characters = C<68>;
/// How many characters the model sees.
pub(crate) type Context = C<64>;
type Width = C<64>;
type HeadCount = C<4>;
type Inner = C<256>;
const LAYERS: usize = 2;

/// Of the normal distribution that embeddings are drawn from.
const DEVIATION: f64 = 0.02;

pub(crate) struct CharLm<E = f32> {
    characters: Embedding<Vocab<Characters>, Model<Width>, E>,
    positions: LearnedPositions<Seq<Context>, Model<Width>, E>,
    encoder: Encoder<Width, HeadCount, Inner, Bias, E>,
}

impl<E: Float> Module for CharLm<E> {
    parameters!(characters, positions, encoder);
}

impl<E: Float> CharLm<E> {
    /// A model that has learned nothing.
    pub(crate) fn new(generator: &mut Generator) -> Self {
        let config = EncoderConfig {
            norm: NormPlacement::Pre,
            activation: Activation::Gelu,
            ..EncoderConfig::new(1e-5)
        };
        let characters = Embedding::normal(DEVIATION, generator);
        let positions = LearnedPositions::normal(DEVIATION, generator);
        let layers = (0..LAYERS).map(|_| EncoderLayer::xavier(config, generator)).collect();
        let encoder = Encoder::new(layers).with_norm(LayerNorm::new(config.epsilon));
        CharLm { characters, positions, encoder }
    }

    /// How likely each character is to follow each of these and those before it, before the softmax.
    ///
    /// # Errors
    /// Where there are more characters than the context has, or one is not in the text.
    pub(crate) fn forward<B: Size, S: Size>(
        &self,
        tokens: &Tensor<(Batch<B>, Seq<S>), usize>,
        mode: &mut impl Mode,
    ) -> Result<Tensor<(Batch<B>, Seq<S>, Vocab<Characters>), E>> {
        let (_, length) = tokens.shape();
        let x = self.characters.try_forward(tokens, mode)?;
        let x = x.add(&self.positions.try_forward(0, length, mode)?);
        let x = self.encoder.forward(&x, Causal, mode);
        Ok(self.characters.unembed(&x, mode))
    }
}
