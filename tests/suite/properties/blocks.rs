//! Gated and grouped blocks, decoders, rotations and RMS norms: the same bits for any layout, any
//! number of threads and any neighbours in the batch; nothing hidden reaches anything; empty axes.

use proptest::prelude::*;
use shapeproof::{
    Activation, Adjacent, Batch, Bias, C, Causal, Decoder, DecoderConfig, DecoderLayer, Embedding,
    Float, GatedFeedForward, Generator, GroupedAttention, Infer, Key, KvHeads, LayerNorm, Model,
    NoMask, NormPlacement, RmsNorm, Rotary, Seq, Size, Tensor, Vocab, dyn_size,
};

use super::threads::the_same_in_pools;
use super::{Scattered, draws};
use crate::masks::{bits, narrowed};
use crate::random::Random;

type Rows<B, S, E> = Tensor<(Batch<B>, Seq<S>, Model<C<6>>), E>;
type Keep<B, S> = Tensor<(Batch<B>, Key<S>), bool>;

/// One layer of each kind.
struct Layers<E> {
    norm: RmsNorm<Model<C<6>>, E>,
    gated: GatedFeedForward<C<6>, C<9>, Bias, E>,
    grouped: GroupedAttention<C<6>, C<4>, C<5>, KvHeads<C<2>>, Bias, E>,
    decoder: Decoder<C<6>, C<3>, C<7>, C<6>, Bias, E>,
    embedding: Embedding<Vocab<C<5>>, Model<C<6>>, E>,
    rotary: Rotary<C<4>, Adjacent>,
}

impl<E: Float> Layers<E> {
    fn new(seed: u64) -> Self {
        let generator = &mut Generator::seeded(seed);
        let pre = DecoderConfig { norm: NormPlacement::Pre, ..DecoderConfig::new(1e-5) };
        let post = DecoderConfig { activation: Activation::Gelu, ..DecoderConfig::new(1e-5) };
        let layers = [pre, post].map(|config| DecoderLayer::xavier(config, generator));
        Layers {
            norm: RmsNorm::new(1e-6),
            gated: GatedFeedForward::xavier(Activation::Silu, generator),
            grouped: GroupedAttention::xavier(generator).with_norms(1e-6),
            decoder: Decoder::new(layers.into()).with_norm(LayerNorm::new(1e-5)),
            embedding: Embedding::normal(1.0, generator),
            rotary: Rotary::try_new(10_000.0).unwrap(),
        }
    }

    /// Everything that maps rows to rows, by name. A mask over `keep` and a causal one.
    fn run<B: Size, S: Size>(
        &self,
        x: &Rows<B, S, E>,
        keep: &Keep<B, S>,
    ) -> Vec<(&'static str, Rows<B, S, E>)> {
        let mode = &mut Infer;
        let table = self.rotary.try_at(3, x.shape().1).unwrap();
        let rotated = self.grouped.forward_rotated(x, &table, keep & Causal, mode);
        vec![
            ("rms norm", self.norm.forward(x, mode)),
            ("gated", self.gated.forward(x, mode)),
            ("grouped", self.grouped.forward(x, keep, mode)),
            ("grouped, rotated", rotated),
            ("decoder", self.decoder.forward(x, x, keep, keep, mode)),
        ]
    }
}

fn drawn<B: Size, S: Size, E: Float>((b, s): (B, S), seed: u64) -> (Rows<B, S, E>, Keep<B, S>) {
    let mut random = Random::new(seed);
    let shape = (Batch(b), Seq(s), Model(C::<6>));
    let values = narrowed(&random.values(b.get() * s.get() * 6));
    let x = Tensor::try_from_vec(shape, values).unwrap();
    (x, Tensor::from_fn_in((Batch(b), Key(s)), |_| random.flag()))
}

fn layouts_do_not_matter<E: Float>([b, s]: [usize; 2], seed: u64) {
    dyn_size!(b = b, s = s);
    let layers = Layers::<E>::new(seed);
    let (x, keep) = drawn((b, s), seed);
    let want = layers.run(&x, &keep);
    for x in x.scattered(E::from_f64(f64::NAN)) {
        for ((name, got), (_, want)) in layers.run(&x, &keep).iter().zip(&want) {
            assert_eq!(bits(&got.to_vec()), bits(&want.to_vec()), "{name}");
        }
        let (got, want) = (
            layers.embedding.unembed(&x, &mut Infer),
            layers.embedding.unembed(&x.packed(), &mut Infer),
        );
        assert_eq!(bits(&got.to_vec()), bits(&want.to_vec()));
    }
}

fn neighbours_do_not_matter<E: Float>([b, s]: [usize; 2], seed: u64) {
    dyn_size!(b = b, s = s);
    let layers = Layers::<E>::new(seed);
    let (x, keep) = drawn((b, s), seed);
    for (i, (name, all)) in layers.run(&x, &keep).into_iter().enumerate() {
        for sample in 0..b.get() {
            let one = x.try_slice(Batch, sample, C::<1>).unwrap();
            let alone = &layers.run(&one, &keep.try_slice(Batch, sample, C::<1>).unwrap())[i].1;
            let want = all.try_slice(Batch, sample, C::<1>).unwrap();
            assert_eq!(bits(&alone.to_vec()), bits(&want.to_vec()), "{name}, sample {sample}");
        }
    }
}

/// A padded position may hold anything: the positions that are not padding do not see it.
fn padding_reaches_nothing<E: Float>([b, s]: [usize; 2], seed: u64) {
    dyn_size!(b = b, s = s);
    let layers = Layers::<E>::new(seed);
    let (x, keep) = drawn((b, s), seed);
    let at_positions = keep.rename(Key, Seq);
    let found = |x: &Rows<_, _, E>| {
        let zero = Tensor::scalar(E::from_f64(0.0));
        let outputs = layers.run(x, &keep).into_iter();
        outputs.map(|(_, y)| bits(&y.where_or(&at_positions, &zero).to_vec())).collect::<Vec<_>>()
    };
    let want = found(&x);
    for strange in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let spoiled = x.where_or(&at_positions, &Tensor::scalar(E::from_f64(strange)));
        assert_eq!(found(&spoiled), want, "{strange}");
    }
}

proptest! {
    #![proptest_config(draws(24))]

    #[test]
    fn blocks_do_not_depend_on_strides(sizes in [0usize..4, 0..6], seed: u64) {
        layouts_do_not_matter::<f32>(sizes, seed);
        layouts_do_not_matter::<f64>(sizes, seed);
    }

    #[test]
    fn blocks_of_n_samples_are_n_blocks_of_one(sizes in [0usize..5, 0..9], seed: u64) {
        neighbours_do_not_matter::<f32>(sizes, seed);
        neighbours_do_not_matter::<f64>(sizes, seed);
    }

    #[test]
    fn nan_in_padding_reaches_no_other_position_of_a_block(sizes in [1usize..4, 1..6], seed: u64) {
        padding_reaches_nothing::<f32>(sizes, seed);
        padding_reaches_nothing::<f64>(sizes, seed);
    }
}

#[test]
fn blocks_do_not_depend_on_threads() {
    fn check<E: Float>() {
        let layers = Layers::<E>::new(1);
        let (x, keep) = drawn::<_, _, E>((C::<30>, C::<50>), 2);
        the_same_in_pools(E::NAME, || {
            let outputs = layers.run(&x, &keep).into_iter();
            outputs.map(|(_, y)| bits(&y.to_vec())).collect::<Vec<_>>()
        });
    }
    check::<f32>();
    check::<f64>();
}

// huggingface/candle#3567: a padding mask does not take causality away.
#[test]
fn a_decoder_is_causal_whatever_its_mask() {
    let layers = Layers::<f64>::new(3);
    let (x, _) = drawn::<_, _, f64>((C::<2>, C::<6>), 4);
    let (memory, _) = drawn::<_, _, f64>((C::<2>, C::<3>), 5);
    let later = Tensor::<(Seq<C<6>>,), bool>::from_fn(|at| at[0] >= 4);
    let changed = x.where_or(&later.not(), &Tensor::scalar(9.0));
    let all = Tensor::<(Batch<C<2>>, Key<C<6>>), bool>::full(true);
    let run = |x: &Rows<C<2>, C<6>, f64>, masked: bool| {
        let y = match masked {
            true => layers.decoder.forward(x, &memory, &all, NoMask, &mut Infer),
            false => layers.decoder.forward(x, &memory, NoMask, NoMask, &mut Infer),
        };
        bits(&y.try_slice(Seq, 0, C::<4>).unwrap().to_vec())
    };
    assert_eq!(run(&x, true), run(&x, false));
    assert_eq!(run(&changed, true), run(&x, true));
    assert_eq!(run(&changed, false), run(&x, false));
}

#[test]
fn blocks_of_empty_axes_are_legal() {
    fn check<E: Float>([b, s, k]: [usize; 3]) {
        let layers = Layers::<E>::new(6);
        dyn_size!(b = b, s = s, k = k);
        let (x, keep) = drawn::<_, _, E>((b, s), 7);
        for (name, y) in layers.run(&x, &keep) {
            assert!(y.to_vec().iter().all(|y| y.to_f64().is_finite()), "{name}");
        }
        let (memory, _) = drawn::<_, _, E>((b, k), 8);
        let y = layers.decoder.forward(&x, &memory, NoMask, NoMask, &mut Infer);
        assert!(y.to_vec().iter().all(|y| y.to_f64().is_finite()));
    }
    for sizes in [[0, 3, 2], [2, 0, 3], [2, 3, 0], [0, 0, 0], [1, 1, 1], [3, 3, 3]] {
        check::<f32>(sizes);
        check::<f64>(sizes);
    }
    let x = Tensor::<(Batch<C<2>>, Model<C<0>>)>::zeros();
    assert_eq!(RmsNorm::<Model<C<0>>>::new(1e-5).forward(&x, &mut Infer).dims(), [2, 0]);
}
