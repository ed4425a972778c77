//! Attention against central differences in f64: all that it gives, with regard to all that it takes.

use shapeproof::{
    Alibi, Attention, Axis, Batch, C, Causal, Distance, DistanceBias, DistanceBuckets, DivisibleBy,
    Dropout, EntriesFor, Generator, GroupedAttention, HeadDim, Heads, Key, KvHeads, KvOf, MaskFor,
    Mode, Model, Module, MultiHeadAttention, NoBias, NoMask, Parameter, Query, RelativePositions,
    ScoreBias, ScoreFn, Seq, Shape, Sinks, Size, SlidingWindow, Stage, Static, Tensor, Train,
    ValueDim, dyn_size, parameters, try_check_gradients,
};

use super::weighed;
use crate::masks::{Over, Part, Sizes, Typed};
use crate::modules::set_each;

const TOLERANCE: f64 = 1e-6;

fn normal<S: Shape>(shape: S, seed: u64) -> Parameter<S, f64> {
    Parameter::new(Tensor::normal_in(shape, 0.0, 0.7, &mut Generator::seeded(seed)))
}

/// Everything learned that masks may add to scores.
struct Terms<H: Static, Q: Size, K: Size> {
    bias: Parameter<(Heads<H>, Query<Q>, Key<K>), f64>,
    shared: Parameter<(Key<K>,), f64>,
    slopes: Parameter<(Heads<H>,), f64>,
    buckets: DistanceBuckets<C<6>, H, f64>,
    table: Parameter<(Heads<H>, Distance<C<4>>), f64>,
    sinks: Parameter<(Heads<H>,), f64>,
}
impl<H: Static, Q: Size, K: Size> Module for Terms<H, Q, K> {
    parameters!(bias, shared, slopes, buckets, table, sinks);
}

impl<H: Static, Q: Size, K: Size> Terms<H, Q, K> {
    fn new(query: Query<Q>, key: Key<K>) -> Self {
        let heads = Heads(H::default());
        let buckets = normal((shapeproof::Bucket(C::<6>), heads), 4).value();
        Terms {
            bias: normal((heads, query, key), 1),
            shared: normal((key,), 2),
            slopes: normal((heads,), 3),
            buckets: DistanceBuckets::of(buckets, 5, true),
            table: normal((heads, Distance(C)), 6),
            sinks: normal((heads,), 7),
        }
    }

    fn of<B: Size>(
        &self,
        train: &mut Train,
    ) -> impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), f64> + use<B, H, Q, K> {
        ScoreBias(train.read(&self.bias))
            & ScoreBias(train.read(&self.shared))
            & Alibi::of_slopes(train.read(&self.slopes))
            & self.buckets.bias(train)
            & DistanceBias::of_table(train.read(&self.table), -2)
            & Sinks(train.read(&self.sinks))
    }
}

/// Queries, keys and values by head, and what is added to their scores.
struct ByHead<B: Size, H: Static, KV: Axis, Q: Size, K: Size, D: Size, V: Size> {
    q: Parameter<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), f64>,
    k: Parameter<(Batch<B>, KV, Key<K>, HeadDim<D>), f64>,
    v: Parameter<(Batch<B>, KV, Key<K>, ValueDim<V>), f64>,
    terms: Terms<H, Q, K>,
}
impl<B: Size, H: Static, KV: Axis, Q: Size, K: Size, D: Size, V: Size> Module
    for ByHead<B, H, KV, Q, K, D, V>
{
    parameters!(q, k, v, terms);
}

/// Runs `$check` on queries, keys and values of these sizes: batch, queries, keys, widths.
macro_rules! by_head {
    ($check:ident, $H:ty, $kv:expr, $sizes:expr) => {{
        let [b, n, m, d, w] = $sizes;
        dyn_size!(b = b, n = n, m = m, d = d, w = w);
        let (batch, heads) = (Batch(b), Heads(<$H>::default()));
        $check(
            &format!("{:?}", $sizes),
            ByHead {
                q: normal((batch, heads, Query(n), HeadDim(d)), 11),
                k: normal((batch, $kv, Key(m), HeadDim(d)), 12),
                v: normal((batch, $kv, Key(m), ValueDim(w)), 13),
                terms: Terms::new(Query(n), Key(m)),
            },
        );
    }};
}

/// All axes of different sizes, all of one, of 1; and each empty.
macro_rules! for_all_sizes {
    ($check:ident) => {
        by_head!($check, C<2>, KvHeads(C::<1>), [3, 4, 5, 6, 7]);
        by_head!($check, C<3>, Heads(C::<3>), [3, 3, 3, 3, 3]);
        by_head!($check, C<1>, Heads(C::<1>), [1, 1, 1, 1, 1]);
        // More queries than keys: under a causal mask, the first see nothing.
        by_head!($check, C<4>, KvHeads(C::<2>), [2, 5, 3, 2, 4]);
        for empty in 0..5 {
            let mut sizes = [2, 3, 4, 2, 3];
            sizes[empty] = 0;
            by_head!($check, C<2>, KvHeads(C::<1>), sizes);
        }
    };
}

/// Compares with differences what `$loss` makes of a `ByHead` with each mask: none, causal, a window.
macro_rules! under_masks {
    ($what:expr, $module:ident, |$at:ident, $train:ident, $mask:ident| $loss:expr) => {{
        let what = $what;
        try_check_gradients(&mut $module, TOLERANCE, |$at, $train| {
            let $mask = NoMask & $at.terms.of($train);
            $loss
        })
        .unwrap_or_else(|error| panic!("{what}: {error}"));
        try_check_gradients(&mut $module, TOLERANCE, |$at, $train| {
            let $mask = Causal & $at.terms.of($train);
            $loss
        })
        .unwrap_or_else(|error| panic!("{what}, causal: {error}"));
        try_check_gradients(&mut $module, TOLERANCE, |$at, $train| {
            let $mask = SlidingWindow::beside(1, 1) & $at.terms.of($train);
            $loss
        })
        .unwrap_or_else(|error| panic!("{what}, window: {error}"));
    }};
}

fn with_weights<B: Size, H: Static, KV: KvOf<Heads<H>>, Q: Size, K: Size, D: Size, V: Size>(
    sizes: &str,
    mut module: ByHead<B, H, KV, Q, K, D, V>,
) {
    let dropout = Dropout::try_new(0.3).unwrap();
    under_masks!(format!("weights {sizes}"), module, |at, train, mask| {
        let (q, k, v) = (train.read(&at.q), train.read(&at.k), train.read(&at.v));
        let attention = Attention::new().softcap(1.5).dropout(dropout, train);
        let (y, weights) = attention.apply_with_weights(&q, &k, &v, mask);
        weighed(&y).add(&weighed(&weights))
    });
}

#[test]
fn outputs_and_weights_agree_with_differences() {
    for_all_sizes!(with_weights);
}

fn with_log_sums<B: Size, H: Static, KV: KvOf<Heads<H>>, Q: Size, K: Size, D: Size, V: Size>(
    sizes: &str,
    mut module: ByHead<B, H, KV, Q, K, D, V>,
) {
    let dropout = Dropout::try_new(0.3).unwrap();
    under_masks!(format!("log-sums {sizes}"), module, |at, train, mask| {
        let (q, k, v) = (train.read(&at.q), train.read(&at.k), train.read(&at.v));
        let attention = Attention::new().softcap(1.5).dropout(dropout, train);
        let (y, log_sums) = attention.apply_with_log_sums(&q, &k, &v, mask);
        // Of nothing it is −∞, where no number has a difference.
        weighed(&y).add(&weighed(&log_sums.exp().add_scalar(1.0).ln()))
    });
}

#[test]
fn outputs_and_logarithms_of_sums_agree_with_differences() {
    for_all_sizes!(with_log_sums);
}

fn by_stage<B: Size, H: Static, KV: KvOf<Heads<H>>, Q: Size, K: Size, D: Size, V: Size>(
    sizes: &str,
    mut module: ByHead<B, H, KV, Q, K, D, V>,
) {
    let capped = Attention::new().scale(0.7).softcap(1.5);
    for (stage, attention) in [
        (Stage::Product, capped),
        (Stage::Capped, capped),
        (Stage::Masked, capped),
        (Stage::Masked, Attention::new()),
    ] {
        under_masks!(format!("{stage:?} {sizes}"), module, |at, train, mask| {
            let (q, k) = (train.read(&at.q), train.read(&at.k));
            weighed(&attention.scores(&q, &k, mask, stage).exp())
        });
    }
}

#[test]
fn scores_agree_with_differences_at_every_stage() {
    for_all_sizes!(by_stage);
}

fn by_mask<B: Size, H: Static, KV: KvOf<Heads<H>>, Q: Size, K: Size, D: Size, V: Size>(
    sizes: &str,
    mut module: ByHead<B, H, KV, Q, K, D, V>,
) {
    let (batch, heads, query, _) = module.q.shape();
    let shape = (batch, heads, query, module.k.shape().2);
    let [b, h, n, m] = [batch.0.get(), H::N, query.0.get(), shape.3.0.get()];
    let of = Sizes::new(b, h, n, m, module.q.shape().3.0.get());
    let mut places = 0_usize;
    let mut every_third = || {
        places += 1;
        !places.is_multiple_of(3)
    };
    let mut over = |axes| Part::Keep(Over::of(of, axes, &mut every_third));
    // Blocks that divide both lengths, and of which there are several where that goes.
    let size = (1..=n.min(m).max(1)).rev().find(|&s| (n % s, m % s) == (0, 0) && s < 3).unwrap();
    let blocks = n / size * (m / size);
    let visible = |count: usize| (0..count).map(|i| i % 3 != 1).collect();
    let halves = vec![[n / 2, m / 2], [n - n / 2, m - m / 2]];
    let mut masks = vec![
        over([false, false, false, true]),
        over([true, false, false, true]),
        over([true, true, true, true]),
        Part::CausalFromStart,
        Part::Prefix(2),
        Part::Window { behind: 1, ahead: 0, global: 1 },
        Part::Blocks { size, by_head: false, visible: visible(blocks) },
        Part::Blocks { size, by_head: true, visible: visible(h * blocks) },
    ];
    for causal in [false, true] {
        masks.push(Part::Segments { lengths: halves.clone(), causal });
    }
    let masks = masks.iter().map(|part| (format!("{part:?}"), part.typed(shape)));
    let own = ScoreFn::<f64>::new(|block| {
        // A distance that no key may be at, and a slope.
        block.fill(
            |i, j| if i == j + 1 { f64::NEG_INFINITY } else { if i < j { 0.3 } else { 0.1 } },
        );
    });
    let own: Typed<'_, _, _, _, _, _> = Box::new(own);
    for (what, mask) in masks.chain([("a function".to_owned(), own)]) {
        let dropout = Dropout::try_new(0.3).unwrap();
        try_check_gradients(&mut module, TOLERANCE, |at, train| {
            let mask = NoMask & &*mask & at.terms.of(train);
            let (q, k, v) = (train.read(&at.q), train.read(&at.k), train.read(&at.v));
            let attention = Attention::new().softcap(1.5).dropout(dropout, train);
            let (y, weights) = attention.apply_with_weights(&q, &k, &v, mask);
            weighed(&y).add(&weighed(&weights))
        })
        .unwrap_or_else(|error| panic!("{what}, {sizes}: {error}"));
    }
}

#[test]
fn every_kind_of_mask_agrees_with_differences() {
    by_head!(by_mask, C<2>, KvHeads(C::<1>), [1, 4, 6, 3, 5]);
    by_head!(by_mask, C<2>, Heads(C::<2>), [2, 2, 2, 2, 2]);
    by_head!(by_mask, C<1>, Heads(C::<1>), [1, 1, 1, 1, 1]);
    by_head!(by_mask, C<2>, KvHeads(C::<1>), [0, 2, 4, 2, 3]);
    by_head!(by_mask, C<2>, KvHeads(C::<1>), [2, 0, 4, 2, 3]);
    by_head!(by_mask, C<2>, KvHeads(C::<1>), [2, 2, 0, 2, 3]);
}

/// A layer, what goes in and what is added to its scores.
struct Layer<L, B: Size, H: Static, S: Size, M: Size> {
    layer: L,
    x: Parameter<(Batch<B>, Seq<S>, Model<M>), f64>,
    terms: Terms<H, S, S>,
}
impl<L: Module, B: Size, H: Static, S: Size, M: Size> Module for Layer<L, B, H, S, M> {
    parameters!(layer, x, terms);
}

impl<L: Module, B: Size, H: Static, S: Size, M: Size> Layer<L, B, H, S, M> {
    /// Biases of 0 would hide faults.
    fn new(layer: L, batch: Batch<B>, seq: Seq<S>, model: Model<M>) -> Self {
        let terms = Terms::new(Query(seq.0), Key(seq.0));
        let mut module = Layer { layer, x: normal((batch, seq, model), 21), terms };
        let mut generator = Generator::seeded(22);
        set_each(&mut module, |_| 0.7 * generator.normal());
        module
    }
}

#[test]
fn multi_head_attention_with_all_terms_agrees_with_differences() {
    fn check<M: DivisibleBy<H>, H: Static>(batch: usize, length: usize) {
        dyn_size!(batch = batch, length = length);
        let model = Model(M::default());
        let layer = MultiHeadAttention::<M, H, M, M, shapeproof::Bias, f64>::xavier(
            &mut Generator::seeded(8),
        )
        .with_bias_kv(normal((model,), 23).value(), normal((model,), 24).value())
        .with_zero_attention()
        .with_dropout(Dropout::try_new(0.2).unwrap());
        let mut module = Layer::<_, _, H, _, _>::new(layer, Batch(batch), Seq(length), model);
        under_masks!(format!("{batch:?} {length:?} {:?}", M::N), module, |at, train, mask| {
            let x = train.read(&at.x);
            let (y, weights) = at.layer.forward_with_weights(&x, mask, train);
            weighed(&y).add(&weighed(&weights))
        });
    }
    check::<C<6>, C<2>>(3, 5);
    check::<C<9>, C<3>>(3, 3);
    check::<C<1>, C<1>>(1, 1);
    check::<C<4>, C<2>>(0, 3);
    check::<C<4>, C<2>>(2, 0);
}

#[test]
fn grouped_attention_with_all_terms_agrees_with_differences() {
    fn check<M: Static, H: Static, D: Static, KV: KvOf<Heads<H>> + Default>(
        batch: usize,
        length: usize,
    ) {
        dyn_size!(batch = batch, length = length);
        let layer = GroupedAttention::<M, H, D, KV, NoBias, f64>::xavier(&mut Generator::seeded(8))
            .with_norms(1e-5)
            .with_attention(Attention::new().softcap(2.0))
            .with_dropout(Dropout::try_new(0.2).unwrap());
        let model = Model(M::default());
        let mut module = Layer::<_, _, H, _, _>::new(layer, Batch(batch), Seq(length), model);
        under_masks!(format!("{batch:?} {length:?} {:?}", M::N), module, |at, train, mask| {
            let x = train.read(&at.x);
            weighed(&at.layer.forward(&x, mask, train))
        });
    }
    check::<C<7>, C<4>, C<3>, KvHeads<C<2>>>(2, 5);
    check::<C<3>, C<3>, C<3>, KvHeads<C<3>>>(3, 3);
    check::<C<1>, C<1>, C<1>, Heads<C<1>>>(1, 1);
    check::<C<4>, C<2>, C<3>, KvHeads<C<1>>>(0, 3);
    check::<C<4>, C<2>, C<3>, KvHeads<C<1>>>(2, 0);
}

/// Relative positions, and what they are for.
struct Positions<T: Static, M: Module> {
    positions: RelativePositions<T, C<3>, ValueDim<C<2>>, f64>,
    by_head: M,
}
impl<T: Static, M: Module> Module for Positions<T, M> {
    parameters!(positions, by_head);
}

#[test]
fn tables_of_relative_positions_agree_with_differences() {
    fn check<X: Static, T: EntriesFor<X>>(queries: usize, keys: usize) {
        dyn_size!(batch = 2, n = queries, m = keys);
        let (batch, heads, groups) = (Batch(batch), Heads(C::<4>), KvHeads(C::<2>));
        let table = Distance(T::default());
        let by_head = ByHead {
            q: normal((batch, heads, Query(n), HeadDim(C::<3>)), 31),
            k: normal((batch, groups, Key(m), HeadDim(C::<3>)), 32),
            v: normal((batch, groups, Key(m), ValueDim(C::<2>)), 33),
            terms: Terms::new(Query(n), Key(m)),
        };
        let keys = normal((table, HeadDim(C::<3>)), 34).value();
        let values = normal((table, ValueDim(C::<2>)), 35).value();
        let positions = RelativePositions::new(X::default(), keys)
            .with_values(values)
            .with_attention(Attention::new().softcap(1.5));
        let mut module = Positions { positions, by_head };
        for causal in [false, true] {
            try_check_gradients(&mut module, TOLERANCE, |at, train| {
                let by_head = &at.by_head;
                let (q, k) = (train.read(&by_head.q), train.read(&by_head.k));
                let (v, terms) = (train.read(&by_head.v), by_head.terms.of(train));
                let y = match causal {
                    true => at.positions.forward(&q, &k, &v, Causal & terms, train),
                    false => at.positions.forward(&q, &k, &v, terms, train),
                };
                weighed(&y)
            })
            .unwrap_or_else(|error| panic!("{queries:?} {causal}: {error}"));
        }
    }
    check::<C<2>, C<5>>(4, 6);
    check::<C<1>, C<3>>(3, 3);
    check::<C<4>, C<9>>(1, 1);
    check::<C<1>, C<3>>(0, 3);
    check::<C<1>, C<3>>(3, 0);
}

#[test]
fn what_is_hidden_gets_no_gradient_from_scores_and_sums() {
    let q =
        Parameter::new(Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<2>>, HeadDim<C<1>>)>::ones());
    let k = Parameter::new(Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<3>>, HeadDim<C<1>>)>::from([
        [[[1.0], [2.0], [f32::NAN]]],
    ]));
    let keep = Tensor::<(Query<C<2>>, Key<C<3>>), bool>::from([[true, true, false], [false; 3]]);
    let mut train = Train::seeded(1);
    let (q_read, k_read) = (train.read(&q), train.read(&k));
    let attention = Attention::new();
    let scores = attention.scores(&q_read, &k_read, &keep, Stage::Masked);
    let gradients = train.backward(&scores.sum_all());
    assert_eq!(gradients.of(&q).to_vec(), [3.0, 0.0]);
    assert_eq!(gradients.of(&k).to_vec(), [1.0, 1.0, 0.0]);
    let (_, log_sums) = attention.apply_with_log_sums(&q_read, &k_read, &k_read, &keep);
    assert_eq!(log_sums.to_vec()[1], f32::NEG_INFINITY);
    let gradients = train.backward(&log_sums.sum_all());
    let share = 1.0 / (1.0 + (-1.0_f32).exp());
    let close = |found: Vec<f32>, wanted: &[f32]| {
        found.iter().zip(wanted).for_each(|(x, y)| assert!((x - y).abs() < 1e-6, "{x} {y}"));
    };
    close(gradients.of(&q).to_vec(), &[1.0 + share, 0.0]);
    close(gradients.of(&k).to_vec(), &[1.0 - share, share, 0.0]);
}
