//! A language model of the size of GPT-2, 12 layers of width 768, as a user would write it: a block of one's
//! own, the stack, loading, one step of training. It is built to see what that costs, and runs.

use shapeproof::{
    AdamW, Batch, C, Causal, Checkpoint, CrossEntropy, Embedding, Generator, Hidden, LayerNorm,
    LearnedPositions, Linear, Mode, Model, Module, MultiHeadAttention, Optimizer, Result, Schedule,
    Seq, Size, Tensor, Train, Vocab, WeightLayout, count_parameters, dyn_size, parameters,
};

type Width = C<768>;
type HeadCount = C<12>;
type Inner = C<3072>;
type Words = C<50257>;
type Context = C<1024>;

const LAYERS: usize = 12;
const EPSILON: f64 = 1e-5;
const DEVIATION: f64 = 0.02;

struct Block {
    attention_norm: LayerNorm<Model<Width>>,
    attention: MultiHeadAttention<Width, HeadCount>,
    norm: LayerNorm<Model<Width>>,
    up: Linear<Model<Width>, Hidden<Inner>>,
    down: Linear<Hidden<Inner>, Model<Width>>,
}

impl Module for Block {
    parameters!(attention_norm, attention, norm, up, down);
}

impl Block {
    fn new(generator: &mut Generator) -> Self {
        Block {
            attention_norm: LayerNorm::new(EPSILON),
            attention: MultiHeadAttention::xavier(generator),
            norm: LayerNorm::new(EPSILON),
            up: Linear::xavier(generator),
            down: Linear::xavier(generator),
        }
    }

    fn forward<B: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<B>, Seq<S>, Model<Width>)>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Seq<S>, Model<Width>)> {
        let normed = self.attention_norm.forward(x, mode);
        let x = x.add(&self.attention.forward(&normed, Causal, mode));
        let inner = self.up.forward(&self.norm.forward(&x, mode), mode).gelu();
        x.add(&self.down.forward(&inner, mode))
    }
}

struct LanguageModel {
    words: Embedding<Vocab<Words>, Model<Width>>,
    positions: LearnedPositions<Seq<Context>, Model<Width>>,
    blocks: Vec<Block>,
    norm: LayerNorm<Model<Width>>,
}

impl Module for LanguageModel {
    parameters!(words, positions, blocks, norm);
}

impl LanguageModel {
    fn new(generator: &mut Generator) -> Self {
        LanguageModel {
            words: Embedding::normal(DEVIATION, generator),
            positions: LearnedPositions::normal(DEVIATION, generator),
            blocks: (0..LAYERS).map(|_| Block::new(generator)).collect(),
            norm: LayerNorm::new(EPSILON),
        }
    }

    fn forward<B: Size, S: Size>(
        &self,
        tokens: &Tensor<(Batch<B>, Seq<S>), u32>,
        mode: &mut impl Mode,
    ) -> Result<Tensor<(Batch<B>, Seq<S>, Vocab<Words>)>> {
        let (_, length) = tokens.shape();
        let x = self.words.try_forward(tokens, mode)?;
        let mut x = x.add(&self.positions.try_forward(0, length, mode)?);
        for block in &self.blocks {
            x = block.forward(&x, mode);
        }
        Ok(self.words.unembed(&self.norm.forward(&x, mode), mode))
    }
}

/// One step on a batch of words in their order, and its loss. Takes the weights from a file if one is named.
fn main() -> Result<()> {
    let mut model = LanguageModel::new(&mut Generator::seeded(1));
    if let Some(path) = std::env::args().nth(1) {
        Checkpoint::new(WeightLayout::InOut).load(&mut model, path)?;
    }
    println!("{} parameters", count_parameters(&model));

    dyn_size!(batch = 2);
    dyn_size!(length = 8);
    let shape = (Batch(batch), Seq(length));
    let tokens = Tensor::try_from_vec(shape, (0..16).collect())?;
    let targets = Tensor::try_from_vec(shape, (1..17).collect())?;

    let mut optimizer = Optimizer::try_new(AdamW::default())?;
    let rate = Schedule::constant(6e-4).warm_up(100);
    let mut mode = Train::seeded(0);
    let loss = CrossEntropy::new().try_of(&model.forward(&tokens, &mut mode)?, &targets)?;
    let gradients = mode.backward(&loss);
    optimizer.step(&mut model, &gradients, rate.rate(0))?;
    println!("loss {:.3}", loss.value());
    Ok(())
}
