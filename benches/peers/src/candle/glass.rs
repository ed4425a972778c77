//! The model of `examples/generate`, on candle's own cache: root mean square norms, rotation of adjacent
//! features, query heads that share key/value heads, gated feed-forward blocks, and the embedding as head.

use super::tensor;
use crate::Result;
use crate::generate::{Decoder, Generation, Setting};
use crate::race::Contestant;
use candle_core::{DType, Device, IndexOp, Tensor};
use candle_nn::kv_cache::KvCache;
use candle_nn::ops::{rms_norm, softmax_last_dim, swiglu};
use candle_nn::rotary_emb::rope_i;
use candle_nn::{Embedding, Linear, Module};

pub fn contestant(setting: &Setting) -> Result<Box<dyn Contestant>> {
    Ok(Box::new(Generation::new(Glass::load(setting)?, setting)))
}

struct Glass {
    words: Embedding,
    head: Linear,
    blocks: Vec<Block>,
    norm: Tensor,
    epsilon: f32,
    /// Cosines and sines over (position, half of a head).
    rotation: [Tensor; 2],
}

struct Block {
    /// Queries, keys and values beside each other.
    qkv: Linear,
    out: Linear,
    /// The gate, and what it opens, beside each other.
    up: Linear,
    down: Linear,
    attention_norm: Tensor,
    feed_forward_norm: Tensor,
    heads: usize,
    kv_heads: usize,
    cache: KvCache,
}

impl Glass {
    fn load(setting: &Setting) -> Result<Self> {
        let size = |name: &str| -> Result<usize> {
            let size = setting.config[name].as_u64().ok_or_else(|| format!("no `{name}`"))?;
            Ok(size.try_into()?)
        };
        let number = |name: &str| setting.config[name].as_f64().ok_or(format!("no `{name}`"));
        let file = candle_core::safetensors::load(&setting.weights, &Device::Cpu)?;
        let read = |name: &str| -> Result<Tensor> {
            let tensor = file.get(name).ok_or_else(|| format!("no {name} in the file"))?;
            Ok(tensor.to_dtype(DType::F32)?)
        };
        // The file's weights are over (in, out), candle's over (out, in).
        let linear = |names: &[&str], block: usize| -> Result<Linear> {
            let of = |name: &&str| Ok(read(&format!("blocks.{block}.{name}"))?.t()?);
            let weights = names.iter().map(of).collect::<Result<Vec<_>>>()?;
            Ok(Linear::new(Tensor::cat(&weights, 0)?.contiguous()?, None))
        };
        let (width, heads, context) = (size("d_model")?, size("n_heads")?, size("max_len")?);
        let kv_heads = size("n_kv_heads")?;
        let block = |block: usize| -> Result<Block> {
            Ok(Block {
                qkv: linear(&["attn.W_Q", "attn.W_K", "attn.W_V"], block)?,
                out: linear(&["attn.W_O"], block)?,
                up: linear(&["ffn.W1", "ffn.W3"], block)?,
                down: linear(&["ffn.W2"], block)?,
                attention_norm: read(&format!("blocks.{block}.norm1.gamma"))?,
                feed_forward_norm: read(&format!("blocks.{block}.norm2.gamma"))?,
                heads,
                kv_heads,
                cache: KvCache::new(2, context),
            })
        };
        let words = read("E")?;
        let rotation = rotation(number("rope_base")?, context, width / heads)?;
        Ok(Glass {
            head: Linear::new(words.clone(), None),
            words: Embedding::new(words, width),
            blocks: (0..size("n_layers")?).map(block).collect::<Result<_>>()?,
            norm: read("norm_f.gamma")?,
            epsilon: number("eps")? as f32,
            rotation,
        })
    }
}

impl Decoder for Glass {
    fn name(&self) -> &'static str {
        "candle"
    }
    fn begin(&mut self) -> Result<()> {
        self.blocks.iter_mut().for_each(|block| block.cache.reset());
        Ok(())
    }
    fn follow(&mut self, tokens: &[usize]) -> Result<Vec<f32>> {
        let tokens =
            tokens.iter().map(|&token| Ok(u32::try_from(token)?)).collect::<Result<Vec<_>>>()?;
        let length = tokens.len();
        let mut x = self.words.forward(&Tensor::new(&tokens[..], &Device::Cpu)?)?;
        for block in &mut self.blocks {
            let start = block.cache.current_seq_len();
            let at = |table: &Tensor| table.narrow(0, start, length);
            let rotation = [at(&self.rotation[0])?, at(&self.rotation[1])?];
            let y = rms_norm(&x, &block.attention_norm, self.epsilon)?;
            x = (x + block.attend(&y, &rotation)?)?;
            let y = rms_norm(&x, &block.feed_forward_norm, self.epsilon)?;
            x = (x + block.down.forward(&swiglu(&block.up.forward(&y)?)?)?)?;
        }
        let last = x.i(length - 1..)?;
        Ok(self.head.forward(&rms_norm(&last, &self.norm, self.epsilon)?)?.i(0)?.to_vec1()?)
    }
}

impl Block {
    /// Attention of new tokens, over (token, feature), to themselves and all before.
    fn attend(&mut self, x: &Tensor, [cos, sin]: &[Tensor; 2]) -> candle_core::Result<Tensor> {
        let (length, width) = x.dims2()?;
        let (heads, kv_heads, head_dim) = (self.heads, self.kv_heads, width / self.heads);
        let qkv = self.qkv.forward(x)?.reshape((1, length, heads + 2 * kv_heads, head_dim))?;
        let part = |first, count| qkv.narrow(2, first, count)?.transpose(1, 2)?.contiguous();
        let q = rope_i(&part(0, heads)?, cos, sin)?;
        let k = rope_i(&part(heads, kv_heads)?, cos, sin)?;
        let (k, v) = self.cache.append(&k, &part(heads + kv_heads, kv_heads)?)?;

        // The query heads of a key/value head as rows below each other.
        let rows = heads / kv_heads * length;
        let q = q.reshape((1, kv_heads, rows, head_dim))?;
        let scores = (q.matmul(&k.t()?)? * (1.0 / (head_dim as f64).sqrt()))?;
        let scores = if length > 1 {
            scores.broadcast_add(&hidden(rows, length, k.dim(2)?)?)?
        } else {
            scores
        };
        let y = softmax_last_dim(&scores)?.matmul(&v)?;
        let y = y.reshape((heads, length, head_dim))?.transpose(0, 1)?;
        self.out.forward(&y.reshape((length, width))?)
    }
}

/// 0 for the keys that a query sees, −∞ for those behind it.
fn hidden(rows: usize, length: usize, keys: usize) -> candle_core::Result<Tensor> {
    let before = keys - length;
    let at = |i: usize| if i % keys > before + i / keys % length { f32::NEG_INFINITY } else { 0.0 };
    tensor(&(0..rows * keys).map(at).collect::<Vec<_>>(), &[rows, keys])
}

fn rotation(base: f64, context: usize, head_dim: usize) -> candle_core::Result<[Tensor; 2]> {
    let half = head_dim / 2;
    let angle = |i: usize| (i / half) as f64 * base.powf(-((i % half) as f64) / half as f64);
    let table = |of: fn(f64) -> f64| {
        let values: Vec<_> = (0..context * half).map(|i| of(angle(i)) as f32).collect();
        tensor(&values, &[context, half])
    };
    Ok([table(f64::cos)?, table(f64::sin)?])
}
