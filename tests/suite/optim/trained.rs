//! A small causal model with attention, a learned bias of its scores and dropout, trained: the same bits for
//! every number of threads, and where it is interrupted.

use crate::io::Folder;
use crate::modules::bits;
use crate::properties::threads::the_same_in_pools;
use shapeproof::{
    Activation, AdamW, Batch, C, Causal, DistanceBuckets, Dropout, Embedding, Encoder,
    EncoderConfig, EncoderLayer, Generator, LayerNorm, Model, Module, NormPlacement, Optimizer,
    Seq, Tensor, Train, Vocab, load_training, parameters, save_training, try_cross_entropy,
};
use std::ops::Range;

type Width = C<24>;
type HeadCount = C<3>;
type Tokens = (Batch<C<4>>, Seq<C<20>>);

struct Lm {
    tokens: Embedding<Vocab<C<30>>, Model<Width>>,
    buckets: DistanceBuckets<C<8>, HeadCount>,
    encoder: Encoder<Width, HeadCount, C<40>>,
}
impl Module for Lm {
    parameters!(tokens, buckets, encoder);
}

/// A run between two steps.
struct Run {
    model: Lm,
    optimizer: Optimizer<AdamW>,
    generator: Generator,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut generator = Generator::seeded(seed);
        let dropout = Dropout::try_new(0.1).unwrap();
        let config = EncoderConfig {
            norm: NormPlacement::Pre,
            activation: Activation::Gelu,
            dropout,
            ..EncoderConfig::new(1e-5)
        };
        let tokens = Embedding::normal(0.3, &mut generator);
        let mut layer = EncoderLayer::xavier(config, &mut generator);
        layer.attention.dropout = dropout;
        let encoder = Encoder::new(vec![layer]).with_norm(LayerNorm::new(1e-5));
        Run {
            model: Lm { tokens, buckets: DistanceBuckets::zeros(16, false), encoder },
            optimizer: Optimizer::try_new(AdamW::default()).unwrap(),
            generator,
        }
    }

    /// These steps; the loss before the last.
    fn train(&mut self, steps: Range<usize>) -> f32 {
        let mut last = f32::NAN;
        for _ in steps {
            // Each token is the one before it, and a little more.
            let first = self.generator.bits() % 30;
            let next = |at: &[usize]| {
                u32::try_from((first + (7 * at[0] + 3 * at[1]) as u64) % 30).unwrap()
            };
            let tokens = Tensor::<Tokens, u32>::from_fn(next);
            let targets = Tensor::<Tokens, u32>::from_fn(|at| next(&[at[0], at[1] + 1]));
            let mut train = Train::seeded(self.generator.bits());
            let bias = self.model.buckets.bias(&mut train);
            let x = self.model.tokens.try_forward(&tokens, &mut train).unwrap();
            let y = self.model.encoder.forward(&x, Causal & bias, &mut train);
            let logits = self.model.tokens.unembed(&y, &mut train);
            let loss = try_cross_entropy(&logits, &targets).unwrap();
            let mut gradients = train.backward(&loss);
            last = loss.value();
            drop((x, y, logits, loss));
            gradients.try_clip_norm(1.0).unwrap();
            self.optimizer.step(&mut self.model, &gradients, 3e-3).unwrap();
        }
        last
    }
}

#[test]
fn training_has_the_same_bits_for_every_number_of_threads() {
    the_same_in_pools("a run", || {
        let mut run = Run::new(5);
        let (first, last) = (run.train(0..1), run.train(1..20));
        assert!(last < 0.8 * first, "it learns: {first} {last}");
        let table = run.model.buckets.weight.value();
        assert!(table.to_vec().iter().any(|x| *x != 0.0), "and so does the bias");
        bits(&run.model)
    });
}

#[test]
fn interrupted_training_goes_on_with_the_same_bits() {
    let folder = Folder::new();
    let path = folder.path("run.safetensors");
    let mut whole = Run::new(6);
    whole.train(0..6);
    for stop in [1, 4] {
        let mut first = Run::new(6);
        first.train(0..stop);
        let Run { model, optimizer, generator } = &first;
        save_training(&path, model, optimizer, stop, generator).unwrap();
        // Of another beginning, and used already.
        let mut second = Run::new(7);
        second.train(0..2);
        let Run { model, optimizer, generator } = &mut second;
        assert_eq!(load_training(&path, model, optimizer, generator).unwrap(), stop);
        second.train(stop..6);
        assert_eq!(bits(&second.model), bits(&whole.model), "{stop}");
    }
}
