//! ALBERT, trained on chemical reactions: narrow embeddings, and one encoder layer that the
//! input runs through twelve times.
//!
//! Every width is a type, so the parts below fit together or do not compile. The number of
//! reactions and of tokens are generic: any [`Size`], read at run time or not.

use std::path::Path;

use serde_json::Value;
use shapeproof::{
    Activation, Batch, Bias, C, Checkpoint, Embedding, Encoder, EncoderConfig, EncoderLayer, Float,
    Heads, Infer, Key, LayerNorm, Linear, MaskFor, Mode, Model, Module, Query, Result, Seq, Size,
    Source, Static, Tensor, Vocab, WeightLayout, axis, parameters,
};

use crate::layers::layers;

axis! {
    /// The width of the embeddings, half of the model's.
    Embed,
    /// Entries of the table of positions.
    Position,
    /// Entries of the table of token types; reactions have tokens of type 0 alone.
    TokenType,
}

/// The sizes that the model was trained with.
type Words = C<591>;
type Positions = C<512>;
type TokenTypes = C<2>;
type Narrow = C<128>;
type Wide = C<256>;
type HeadCount = C<8>;
type Inner = C<512>;

pub(crate) struct Albert<E = f32> {
    words: Embedding<Vocab<Words>, Embed<Narrow>, E>,
    positions: Embedding<Position<Positions>, Embed<Narrow>, E>,
    token_types: Embedding<TokenType<TokenTypes>, Embed<Narrow>, E>,
    norm: LayerNorm<Embed<Narrow>, E>,
    widen: Linear<Embed<Narrow>, Model<Wide>, Bias, E>,
    pub(crate) encoder: Encoder<Wide, HeadCount, Inner, Bias, E>,
}

impl<E: Float> Module for Albert<E> {
    parameters!(words, positions, token_types, norm, widen, encoder);
}

/// A vector for every token.
type Hidden<B, S, E> = Tensor<(Batch<B>, Seq<S>, Model<Wide>), E>;
/// Attention weights of every reaction, head and pair of tokens.
type Weights<B, S, E> = Tensor<(Batch<B>, Heads<HeadCount>, Query<S>, Key<S>), E>;

impl<E: Float> Albert<E> {
    /// Reads the weights; `config` is what the JSON beside them has under that name.
    pub(crate) fn load(weights: &Path, config: &Value) -> std::result::Result<Self, String> {
        let mut model = Self::from_config(config)?;
        // What predicts hidden tokens is of no use here.
        let unused =
            |key: &str| key.starts_with("predictions.") || key.starts_with("albert.pooler.");
        Checkpoint::new(WeightLayout::OutIn)
            .sources(source)
            .allow_extra(unused)
            .load(&mut model, weights)
            .map_err(|error| error.to_string())?;
        Ok(model)
    }

    /// A model of zeros, after a look at whether the file's sizes are the compiled ones.
    fn from_config(config: &Value) -> std::result::Result<Self, String> {
        for (key, compiled) in [
            ("vocab_size", Words::N),
            ("max_position_embeddings", Positions::N),
            ("type_vocab_size", TokenTypes::N),
            ("embedding_size", Narrow::N),
            ("hidden_size", Wide::N),
            ("num_attention_heads", HeadCount::N),
            ("intermediate_size", Inner::N),
            ("num_hidden_groups", 1),
            ("inner_group_num", 1),
        ] {
            if config[key] != compiled {
                return Err(format!("`{key}` is {}, compiled for {compiled}", config[key]));
            }
        }
        let activation = match config["hidden_act"].as_str() {
            Some("gelu") => Activation::Gelu,
            Some("gelu_new") => Activation::GeluTanh,
            _ => return Err(format!("`hidden_act` is {}, not a GELU", config["hidden_act"])),
        };
        let epsilon = config["layer_norm_eps"].as_f64().ok_or("no `layer_norm_eps`")?;
        let times = layers(config, "num_hidden_layers")?;

        let layer = EncoderConfig { activation, ..EncoderConfig::new(epsilon) };
        Ok(Albert {
            words: Embedding::zeros(),
            positions: Embedding::zeros(),
            token_types: Embedding::zeros(),
            norm: LayerNorm::new(epsilon),
            widen: Linear::zeros(),
            encoder: Encoder::shared(EncoderLayer::zeros(layer), times),
        })
    }

    /// What the first layer sees.
    ///
    /// # Errors
    /// Where a token is not in the vocabulary, or there are more than the model has positions for.
    pub(crate) fn embed<B: Size, S: Size>(
        &self,
        tokens: &Tensor<(Batch<B>, Seq<S>), usize>,
    ) -> Result<Hidden<B, S, E>> {
        let (_, Seq(length)) = tokens.shape();
        let words = self.words.try_forward(tokens, &mut Infer)?;
        let positions = Infer.read(&self.positions.weight).try_slice(Position, 0, length)?;
        let token_type = Infer.read(&self.token_types.weight).try_select(TokenType, 0)?;
        let sum = words.add(&positions.rename(Position, Seq)).add(&token_type);
        Ok(self.widen.forward(&self.norm.forward(&sum, &mut Infer), &mut Infer))
    }

    /// The attention weights of one layer, counted from 0. Those behind it do not run.
    ///
    /// # Errors
    /// As [`embed`](Self::embed).
    ///
    /// # Panics
    /// Where the model has no such layer.
    pub(crate) fn attention<B: Size, S: Size>(
        &self,
        layer: usize,
        tokens: &Tensor<(Batch<B>, Seq<S>), usize>,
        mask: impl MaskFor<(Batch<B>, Heads<HeadCount>, Query<S>, Key<S>), E>,
    ) -> Result<Weights<B, S, E>> {
        let mut x = self.embed(tokens)?;
        let mut layers = self.encoder.iter();
        for before in layers.by_ref().take(layer) {
            x = before.forward(&x, &mask, &mut Infer);
        }
        let last = layers.next().expect("a layer of the model");
        // The norms stand behind the blocks, so attention comes first in a layer.
        Ok(last.attention.forward_with_weights(&x, &mask, &mut Infer).1)
    }
}

/// Where the file has a parameter.
fn source(name: &str) -> Source {
    const THEIRS: [(&str, &str); 13] = [
        ("words.", "albert.embeddings.word_embeddings."),
        ("positions.", "albert.embeddings.position_embeddings."),
        ("token_types.", "albert.embeddings.token_type_embeddings."),
        ("widen.", "albert.encoder.embedding_hidden_mapping_in."),
        ("encoder.layers.0.", "albert.encoder.albert_layer_groups.0.albert_layers.0."),
        (".q_proj.", ".query."),
        (".k_proj.", ".key."),
        (".v_proj.", ".value."),
        (".out_proj.", ".dense."),
        (".attention_norm.", ".attention.LayerNorm."),
        (".feed_forward_norm.", ".full_layer_layer_norm."),
        (".feed_forward.up.", ".ffn."),
        (".feed_forward.down.", ".ffn_output."),
    ];
    match name.strip_prefix("norm.") {
        Some(field) => Source::key(format!("albert.embeddings.LayerNorm.{field}")),
        None => Source::key(
            THEIRS.iter().fold(name.to_owned(), |key, (ours, theirs)| key.replace(ours, theirs)),
        ),
    }
}
