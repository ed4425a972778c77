//! A decoder of the Llama kind: root mean square norms before each block, rotary positions, query heads
//! that share key/value heads, gated feed-forward blocks, and the embedding as output head.
//!
//! Every width is a type, so the parts below fit together or do not compile, and the cache fits the
//! layers. Batch and length are generic: any [`Size`], read at run time or not.

use std::path::Path;

use serde_json::Value;
use shapeproof::{
    Activation, Adjacent, Batch, C, Causal, Checkpoint, Embedding, Float, GatedFeedForward,
    GroupedAttention, Infer, Key, KvCache, KvHeads, Model, Module, NoBias, Result, RmsNorm, Rotary,
    RotaryTable, Seq, Size, Source, Static, Tensor, Vocab, WeightLayout, dyn_size, parameters,
    scaled_dot_product_attention,
};

use crate::layers::layers;

/// The sizes that the model was trained with.
pub(crate) type Words = C<1024>;
pub(crate) type Width = C<128>;
pub(crate) type HeadCount = C<4>;
pub(crate) type KvCount = C<2>;
pub(crate) type Dim = C<32>;
type Inner = C<341>;
pub(crate) type Context = C<128>;

/// A vector for every token.
pub(crate) type Hidden<B, S, E = f32> = Tensor<(Batch<B>, Seq<S>, Model<Width>), E>;
/// Keys and values of all layers.
pub(crate) type Cache<B, E = f32> =
    KvCache<B, KvHeads<KvCount>, Context, Dim, shapeproof::HeadDim<Dim>, E>;
/// The rotation at each of `S` positions.
pub(crate) type Positions<S, E = f32> = RotaryTable<(Seq<S>,), Dim, Adjacent, E>;

pub(crate) struct Glass<E = f32> {
    pub(crate) words: Embedding<Vocab<Words>, Model<Width>, E>,
    pub(crate) blocks: Vec<Block<E>>,
    norm: RmsNorm<Model<Width>, E>,
    /// Of all positions of the context.
    pub(crate) positions: Positions<Context, E>,
}

pub(crate) struct Block<E = f32> {
    pub(crate) attention: GroupedAttention<Width, HeadCount, Dim, KvHeads<KvCount>, NoBias, E>,
    pub(crate) attention_norm: RmsNorm<Model<Width>, E>,
    feed_forward: GatedFeedForward<Width, Inner, NoBias, E>,
    feed_forward_norm: RmsNorm<Model<Width>, E>,
}

impl<E: Float> Module for Glass<E> {
    parameters!(words, blocks, norm);
}

impl<E: Float> Module for Block<E> {
    parameters!(attention, attention_norm, feed_forward, feed_forward_norm);
}

impl<E: Float> Glass<E> {
    /// Reads the weights; `config` is what the JSON beside them has under that name.
    pub(crate) fn load(weights: &Path, config: &Value) -> std::result::Result<Self, String> {
        let mut model = Self::from_config(config)?;
        Checkpoint::new(WeightLayout::InOut)
            .sources(source)
            .load(&mut model, weights)
            .map_err(|error| error.to_string())?;
        Ok(model)
    }

    /// A model of zeros, after a look at whether the file's sizes are the compiled ones.
    fn from_config(config: &Value) -> std::result::Result<Self, String> {
        for (key, compiled) in [
            ("vocab_size", Words::N),
            ("d_model", Width::N),
            ("n_heads", HeadCount::N),
            ("n_kv_heads", KvCount::N),
            ("max_len", Context::N),
        ] {
            if config[key] != compiled {
                return Err(format!("`{key}` is {}, compiled for {compiled}", config[key]));
            }
        }
        let layers = layers(config, "n_layers")?;
        let epsilon = config["eps"].as_f64().ok_or("no `eps`")?;
        let base = config["rope_base"].as_f64().ok_or("no `rope_base`")?;
        let positions = Rotary::try_new(base).and_then(|rotary| rotary.try_at(0, Seq(C)));
        Ok(Glass {
            words: Embedding::zeros(),
            blocks: (0..layers).map(|_| Block::zeros(epsilon)).collect(),
            norm: RmsNorm::new(epsilon),
            positions: positions.map_err(|error| error.to_string())?,
        })
    }

    /// An empty cache for this model.
    pub(crate) fn cache<B: Size>(&self, batch: Batch<B>) -> Result<Cache<B, E>> {
        let shape = (batch, KvHeads(C), Key(C), shapeproof::HeadDim(C));
        KvCache::try_new_in(shape, shapeproof::HeadDim(C), self.blocks.len())
    }

    /// The vectors of new tokens behind the last layer. Their keys and values go into the cache, behind
    /// those of the tokens before.
    ///
    /// # Errors
    /// Where a token is not in the vocabulary, or the context has no room for so many; the cache is as
    /// it was then.
    pub(crate) fn forward<B: Size, S: Size>(
        &self,
        tokens: &Tensor<(Batch<B>, Seq<S>), usize>,
        cache: &mut Cache<B, E>,
    ) -> Result<Hidden<B, S, E>> {
        let (_, new) = tokens.shape();
        let mut step = cache.begin(new)?;
        let positions = self.positions.try_slice(step.start(), new)?;
        dyn_size!(keys = step.keys());
        let mut x = self.words.try_forward(tokens, &mut Infer)?;
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.around(&x, |x| {
                let (q, k, v) = block.attention.project(x, &mut Infer);
                step.append(layer, &positions.rotate(&k), &v)?;
                let (k, v) = step.view(layer, Key(keys))?;
                let y = scaled_dot_product_attention(&positions.rotate(&q), &k, &v, Causal);
                Ok(block.attention.output(&y, &mut Infer))
            })?;
        }
        step.commit()?;
        Ok(x)
    }

    /// How likely each token is to follow, before the softmax.
    pub(crate) fn logits<B: Size, S: Size>(
        &self,
        x: &Hidden<B, S, E>,
    ) -> Tensor<(Batch<B>, Seq<S>, Vocab<Words>), E> {
        self.words.unembed(&self.norm.forward(x, &mut Infer), &mut Infer)
    }

    /// The logits behind the last of these tokens.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and where there is no token.
    pub(crate) fn follow(&self, tokens: &[usize], cache: &mut Cache<C<1>, E>) -> Result<Vec<f32>> {
        dyn_size!(length = tokens.len());
        let tokens = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), tokens.to_vec())?;
        let x = self.forward(&tokens, cache)?;
        let last = x.try_slice(Seq, length.get().saturating_sub(1), C::<1>)?;
        Ok(self.logits(&last).to::<f32>().to_vec())
    }
}

impl<E: Float> Block<E> {
    fn zeros(epsilon: f64) -> Self {
        Block {
            attention: GroupedAttention::zeros(),
            attention_norm: RmsNorm::new(epsilon),
            feed_forward: GatedFeedForward::zeros(Activation::Silu),
            feed_forward_norm: RmsNorm::new(epsilon),
        }
    }

    /// The norms, residual connections and the feed-forward block around `attend`.
    pub(crate) fn around<B: Size, S: Size>(
        &self,
        x: &Hidden<B, S, E>,
        attend: impl FnOnce(&Hidden<B, S, E>) -> Result<Hidden<B, S, E>>,
    ) -> Result<Hidden<B, S, E>> {
        let x = x.add(&attend(&self.attention_norm.forward(x, &mut Infer))?);
        let y = self.feed_forward_norm.forward(&x, &mut Infer);
        Ok(x.add(&self.feed_forward.forward(&y, &mut Infer)))
    }
}

/// Where the file has a parameter.
fn source(name: &str) -> Source {
    const THEIRS: [(&str, &str); 11] = [
        ("words.weight", "E"),
        ("attention_norm.weight", "norm1.gamma"),
        ("feed_forward_norm.weight", "norm2.gamma"),
        ("attention.q_proj.weight", "attn.W_Q"),
        ("attention.k_proj.weight", "attn.W_K"),
        ("attention.v_proj.weight", "attn.W_V"),
        ("attention.out_proj.weight", "attn.W_O"),
        ("feed_forward.gate.weight", "ffn.W1"),
        ("feed_forward.down.weight", "ffn.W2"),
        ("feed_forward.up.weight", "ffn.W3"),
        // Behind the names that end like it.
        ("norm.weight", "norm_f.gamma"),
    ];
    let (ours, theirs) =
        THEIRS.into_iter().find(|(ours, _)| name.ends_with(ours)).unwrap_or_default();
    Source::key(format!("{}{theirs}", &name[..name.len() - ours.len()]))
}
