//! A whole decoder of a public model, from its file to its logits: RMS norms, grouped heads, rotation of
//! adjacent features, gated feed-forward blocks and an output head that is the embedding.

use std::path::Path;

use shapeproof::{
    Activation, Adjacent, Batch, C, Causal, Checkpoint, Embedding, GatedFeedForward,
    GroupedAttention, Heads, Infer, Key, KvHeads, Model, Module, NoBias, Query, RmsNorm, Rotary,
    Seq, Size, Source, Tensor, Vocab, WeightLayout, count_parameters, dyn_size, parameters,
};

use crate::fixtures::{Tensors, assert_close, reference};

type Width = C<128>;
type Attention = GroupedAttention<Width, C<4>, C<32>, KvHeads<C<2>>, NoBias>;
type Rows<L> = Tensor<(Batch<C<1>>, Seq<L>, Model<Width>)>;

struct Block {
    norm1: RmsNorm<Model<Width>>,
    attention: Attention,
    norm2: RmsNorm<Model<Width>>,
    feed_forward: GatedFeedForward<Width, C<341>>,
}

impl Module for Block {
    parameters!(norm1, attention as "attn", norm2, feed_forward as "ffn");
}

impl Block {
    fn forward<L: Size>(&self, x: &Rows<L>, rotary: &Rotary<C<32>, Adjacent>) -> Rows<L> {
        let table = rotary.try_at(0, x.shape().1).unwrap();
        let y = self.norm1.forward(x, &mut Infer);
        let x = x.add(&self.attention.forward_rotated(&y, &table, Causal, &mut Infer));
        x.add(&self.feed_forward.forward(&self.norm2.forward(&x, &mut Infer), &mut Infer))
    }
}

struct Decoder {
    embedding: Embedding<Vocab<C<1024>>, Model<Width>>,
    blocks: Vec<Block>,
    norm: RmsNorm<Model<Width>>,
    rotary: Rotary<C<32>, Adjacent>,
}

impl Module for Decoder {
    parameters!(embedding as "E", blocks, norm as "norm_f");
}

impl Decoder {
    fn load() -> Self {
        let epsilon = 1e-6;
        let block = || Block {
            norm1: RmsNorm::new(epsilon),
            attention: Attention::zeros(),
            norm2: RmsNorm::new(epsilon),
            feed_forward: GatedFeedForward::zeros(Activation::Silu),
        };
        let mut decoder = Decoder {
            embedding: Embedding::zeros(),
            blocks: (0..4).map(|_| block()).collect(),
            norm: RmsNorm::new(epsilon),
            rotary: Rotary::try_new(10_000.0).unwrap(),
        };
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/glassllm_en.safetensors");
        let loaded =
            Checkpoint::new(WeightLayout::InOut).sources(source).load(&mut decoder, path).unwrap();
        assert_eq!((loaded.missing, loaded.extra), (vec![], vec![]));
        decoder
    }

    /// What goes into each block, and what comes out of the last.
    fn states<L: Size>(&self, ids: &[usize], length: L) -> Vec<Rows<L>> {
        let ids = Tensor::try_from_vec((Batch(C::<1>), Seq(length)), ids.to_vec()).unwrap();
        let mut states = vec![self.embedding.try_forward(&ids, &mut Infer).unwrap()];
        for block in &self.blocks {
            states.push(block.forward(states.last().unwrap(), &self.rotary));
        }
        states
    }

    /// The logits after each of these tokens.
    fn logits(&self, ids: &[usize]) -> Vec<Vec<f32>> {
        dyn_size!(length = ids.len());
        let states = self.states(ids, length);
        let x = self.norm.forward(states.last().unwrap(), &mut Infer);
        let logits = self.embedding.unembed(&x, &mut Infer).to_vec();
        logits.chunks(1024).map(<[f32]>::to_vec).collect()
    }
}

fn source(name: &str) -> Source {
    let name = match name {
        "E.weight" => "E".to_owned(),
        name => name
            .replace("norm1.weight", "norm1.gamma")
            .replace("norm2.weight", "norm2.gamma")
            .replace("norm_f.weight", "norm_f.gamma")
            .replace("q_proj.weight", "W_Q")
            .replace("k_proj.weight", "W_K")
            .replace("v_proj.weight", "W_V")
            .replace("out_proj.weight", "W_O")
            .replace("gate.weight", "W1")
            .replace("down.weight", "W2")
            .replace("up.weight", "W3"),
    };
    Source::key(name)
}

fn argmax(logits: &[f32]) -> usize {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.expect("a vocabulary").0
}

/// A prompt's tokens and those that follow it.
fn prompts(reference: &Tensors) -> [(&'static str, Vec<usize>, Vec<usize>); 2] {
    ["0", "1"].map(|name| {
        let of = |what: &str| reference.usize(&format!("{name}.{what}"));
        (name, of("ids"), of("greedy"))
    })
}

#[test]
fn logits_are_those_of_the_reference_and_so_are_the_next_tokens() {
    let (decoder, (_, reference)) = (Decoder::load(), reference("glassllm"));
    assert_eq!(count_parameters(&decoder), 852_608);
    for (name, ids, greedy) in prompts(&reference) {
        // The tokens that follow are given: one pass says what each would have been.
        let all = [&ids[..], &greedy].concat();
        let logits = decoder.logits(&all);
        let want = reference.f64(&format!("{name}.logits"));
        assert_close("logits", &logits[..ids.len()].concat(), &want, 0.0, 1e-4);
        let next: Vec<_> = logits[ids.len() - 1..all.len() - 1].iter().map(|x| argmax(x)).collect();
        assert_eq!(next, greedy, "prompt {name}");
    }
}

#[test]
fn a_full_context_is_read_as_the_reference_reads_it() {
    let (decoder, (_, reference)) = (Decoder::load(), reference("glassllm"));
    let logits = decoder.logits(&reference.usize("long.ids"));
    let want = reference.f64("long.logits_last");
    assert_close("logits", logits.last().unwrap(), &want, 0.0, 1e-4);
    let best: Vec<_> = logits.iter().map(|x| argmax(x)).collect();
    assert_eq!(best, reference.usize("long.argmax"));
}

/// By the steps that blocks of one's own are made of.
#[test]
fn attention_weights_and_outputs_are_those_of_the_reference() {
    let (decoder, (_, reference)) = (Decoder::load(), reference("glassllm"));
    for (name, ids, _) in prompts(&reference) {
        dyn_size!(length = ids.len());
        let states = decoder.states(&ids, length);
        let table = decoder.rotary.try_at(0, Seq(length)).unwrap();
        for layer in [0, 3] {
            let (block, mode) = (&decoder.blocks[layer], &mut Infer);
            let x = block.norm1.forward(&states[layer], mode);
            let (q, k, v) = block.attention.project(&x, mode);
            let (q, k) = (table.rotate(&q), table.rotate(&k));
            let (y, weights) = shapeproof::Attention::new().apply_with_weights(&q, &k, &v, Causal);
            let weights: Tensor<(Batch<_>, Heads<C<4>>, Query<_>, Key<_>)> = weights;
            let y = block.attention.output(&y, mode);
            let of = |what: &str| reference.f64(&format!("{name}.layer{layer}.attn.{what}"));
            assert_close("weights", &weights.to_vec(), &of("softmax"), 0.0, 5e-6);
            assert_close("output", &y.to_vec(), &of("out"), 0.0, 2e-5);
        }
    }
}
