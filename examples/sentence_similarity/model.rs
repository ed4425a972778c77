//! all-MiniLM-L6-v2: a BERT encoder, and the mean of what it says about a sentence's tokens.
//!
//! The model is generic over its sizes; [`encode`] carries the numbers in its `config.json` onto
//! the compiled ones. Batch and length are read at run time.

use std::path::Path;

use serde_json::Value;
use shapeproof::{
    Activation, AnyTensor, Batch, Bias, C, Checkpoint, DivisibleBy, Embedding, Encoder,
    EncoderConfig, EncoderLayer, Float, Infer, Key, LayerNorm, Mode, Model, Module, Seq, Size,
    Source, Static, Tensor, Vocab, WeightLayout, axis, dispatch, dyn_size, parameters,
};

use super::words::TokenBatch;
use crate::layers::layers;

axis! {
    /// Entries of the table of positions.
    Position,
    /// Entries of the table of token types; a sentence by itself has tokens of type 0 alone.
    TokenType,
}

/// A BERT of `M` features in `H` heads, `F` in its feed-forward blocks, a vocabulary of `V` tokens
/// and `P` positions.
pub(crate) struct Bert<M: DivisibleBy<H>, H: Static, F: Static, V: Static, P: Static, E = f32> {
    words: Embedding<Vocab<V>, Model<M>, E>,
    positions: Embedding<Position<P>, Model<M>, E>,
    token_types: Embedding<TokenType<C<2>>, Model<M>, E>,
    norm: LayerNorm<Model<M>, E>,
    pub(crate) encoder: Encoder<M, H, F, Bias, E>,
}

impl<M: DivisibleBy<H>, H: Static, F: Static, V: Static, P: Static, E: Float> Module
    for Bert<M, H, F, V, P, E>
{
    parameters!(words, positions, token_types, norm, encoder);
}

/// Hidden states: a vector for every token.
pub(crate) type Hidden<B, S, M, E = f32> = Tensor<(Batch<B>, Seq<S>, Model<M>), E>;

/// The vector of each sentence of the batch, as rows, by the model in `folder`. The `Err` is one
/// line.
pub(crate) fn encode<E: Float>(
    folder: &Path,
    config: &Config,
    batch: &TokenBatch,
) -> Result<AnyTensor, String> {
    let Config { width, heads, inner, words, positions, .. } = *config;
    dispatch!(
        (width, heads, inner, words, positions) as (M, H, F, V, P) in [(384, 12, 1536, 30522, 512)]
            => encode_with::<M, H, F, V, P, E>(folder, config, batch)
    )
    .map_err(|error| format!("{}: {error}", folder.join("config.json").display()))?
    .map_err(|error| error.to_string())
}

fn encode_with<M: DivisibleBy<H>, H: Static, F: Static, V: Static, P: Static, E: Float>(
    folder: &Path,
    config: &Config,
    batch: &TokenBatch,
) -> shapeproof::Result<AnyTensor> {
    let model = Bert::<M, H, F, V, P, E>::load(config, &folder.join("model.safetensors"))?;
    dyn_size!(sentences = batch.batch, length = batch.length);
    let shape = (Batch(sentences), Seq(length));
    let tokens = Tensor::try_from_vec(shape, batch.ids.clone())?;
    let keep = Tensor::try_from_vec(shape, batch.keep.clone())?;
    Ok(mean_of_tokens(&model.forward(&tokens, &keep)?.to::<f32>(), &keep).erase())
}

impl<M: DivisibleBy<H>, H: Static, F: Static, V: Static, P: Static, E: Float>
    Bert<M, H, F, V, P, E>
{
    pub(crate) fn load(config: &Config, weights: &Path) -> shapeproof::Result<Self> {
        let layer =
            EncoderConfig { activation: Activation::Gelu, ..EncoderConfig::new(config.epsilon) };
        let layers = (0..config.layers).map(|_| EncoderLayer::zeros(layer)).collect();
        let mut model = Bert {
            words: Embedding::zeros(),
            positions: Embedding::zeros(),
            token_types: Embedding::zeros(),
            norm: LayerNorm::new(config.epsilon),
            encoder: Encoder::new(layers),
        };
        // The numbers 0 to 511, and a layer for whole texts that sentences do without.
        let unused = |key: &str| key == "embeddings.position_ids" || key.starts_with("pooler.");
        Checkpoint::new(WeightLayout::OutIn)
            .sources(source)
            .allow_extra(unused)
            .load(&mut model, weights)?;
        Ok(model)
    }

    /// The hidden states behind the last layer; `keep` is true at tokens, false at padding.
    ///
    /// # Errors
    /// Where a token is not in the vocabulary, or there are more than the model has positions for.
    pub(crate) fn forward<B: Size, S: Size>(
        &self,
        tokens: &Tensor<(Batch<B>, Seq<S>), usize>,
        keep: &Tensor<(Batch<B>, Seq<S>), bool>,
    ) -> shapeproof::Result<Hidden<B, S, M, E>> {
        Ok(self.encoder.forward(&self.embed(tokens)?, keep.rename(Seq, Key), &mut Infer))
    }

    /// What the first layer sees.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub(crate) fn embed<B: Size, S: Size>(
        &self,
        tokens: &Tensor<(Batch<B>, Seq<S>), usize>,
    ) -> shapeproof::Result<Hidden<B, S, M, E>> {
        let (_, Seq(length)) = tokens.shape();
        let words = self.words.try_forward(tokens, &mut Infer)?;
        let positions = Infer.read(&self.positions.weight).try_slice(Position, 0, length)?;
        let token_type = Infer.read(&self.token_types.weight).try_select(TokenType, 0)?;
        let sum = words.add(&positions.rename(Position, Seq)).add(&token_type);
        Ok(self.norm.forward(&sum, &mut Infer))
    }
}

/// The mean of each sentence's hidden states over its tokens, scaled to length 1.
pub(crate) fn mean_of_tokens<B: Size, S: Size, M: Size>(
    hidden: &Hidden<B, S, M>,
    keep: &Tensor<(Batch<B>, Seq<S>), bool>,
) -> Tensor<(Batch<B>, Model<M>)> {
    let sum = hidden.where_or(keep, &Tensor::scalar(0.0)).sum(Seq);
    let count = keep.map(|keep| if keep { 1.0 } else { 0.0 }).sum(Seq);
    let mean = sum.div(&count);
    let length = mean.mul(&mean).sum(Model).sqrt();
    mean.div(&length)
}

/// What `config.json` says.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) words: usize,
    pub(crate) positions: usize,
    pub(crate) layers: usize,
    pub(crate) epsilon: f64,
}

impl Config {
    /// Reads the sizes, and refuses what this example would compute in another way. The `Err` is
    /// one line.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let refuse = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| refuse(&error))?;
        let json: Value = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
        for (key, wanted) in [
            ("model_type", Value::from("bert")),
            ("hidden_act", "gelu".into()),
            ("position_embedding_type", "absolute".into()),
            ("type_vocab_size", 2.into()),
        ] {
            if json[key] != wanted {
                return Err(refuse(&format!("`{key}` is {}, expected {wanted}", json[key])));
            }
        }
        let size = |key: &str| {
            let size = json[key].as_u64().and_then(|it| usize::try_from(it).ok());
            size.ok_or_else(|| refuse(&format!("`{key}` is {}, expected a size", json[key])))
        };
        let epsilon = json["layer_norm_eps"].as_f64();
        Ok(Config {
            width: size("hidden_size")?,
            heads: size("num_attention_heads")?,
            inner: size("intermediate_size")?,
            words: size("vocab_size")?,
            positions: size("max_position_embeddings")?,
            layers: layers(&json, "num_hidden_layers").map_err(|error| refuse(&error))?,
            epsilon: epsilon.ok_or_else(|| refuse(&"no `layer_norm_eps`"))?,
        })
    }
}

/// Where the file has a parameter.
fn source(name: &str) -> Source {
    const THEIRS: [(&str, &str); 12] = [
        ("words.", "embeddings.word_embeddings."),
        ("positions.", "embeddings.position_embeddings."),
        ("token_types.", "embeddings.token_type_embeddings."),
        ("encoder.layers.", "encoder.layer."),
        (".q_proj.", ".self.query."),
        (".k_proj.", ".self.key."),
        (".v_proj.", ".self.value."),
        (".out_proj.", ".output.dense."),
        (".attention_norm.", ".attention.output.LayerNorm."),
        (".feed_forward_norm.", ".output.LayerNorm."),
        (".feed_forward.up.", ".intermediate.dense."),
        (".feed_forward.down.", ".output.dense."),
    ];
    match name.strip_prefix("norm.") {
        Some(field) => Source::key(format!("embeddings.LayerNorm.{field}")),
        None => Source::key(
            THEIRS.iter().fold(name.to_owned(), |key, (ours, theirs)| key.replace(ours, theirs)),
        ),
    }
}
