//! The multi-head attention layer at batch 32, length 64, width 512 and 8 heads, beside the explicit
//! loop over batch and heads that it replaces, with the ratio of the two at the end.

mod support;

use criterion::{Criterion, Throughput, criterion_group};
use shapeproof::{
    Batch, C, Causal, Generator, HeadDim, Heads, Infer, Key, Model, MultiHeadAttention, NoMask,
    Query, Result, Seq, Tensor, scaled_dot_product_attention,
};
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{assert_answers, count, normal, plain_products, plain_softmax};

criterion_group! { name = benches; config = support::criterion(); targets = layer, core }

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // Only for `cargo bench` as a whole: neither under test nor for a selection.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--bench"] {
        report_ratios();
    }
}

type Input = Tensor<(Batch<C<32>>, Seq<C<64>>, Model<C<512>>)>;
type Layer = MultiHeadAttention<C<512>, C<8>>;
type ByHead<S> = Tensor<(Batch<C<32>>, Heads<C<8>>, S, HeadDim<C<64>>)>;

fn layer(c: &mut Criterion) {
    let (layer, x) = setting();
    let plain = plain_layer(&layer, &x);
    assert_answers("the layer", &layer.forward(&x, NoMask, &mut Infer).to_vec(), &plain, 1e-4);
    let looped = loop_over_batch_and_heads(&layer, &x).expect("every index is in range");
    assert_answers("the loop", &looped.to_vec(), &plain, 1e-4);

    let flops = layer.explain(Batch(C::<32>), Seq(C::<64>), Seq(C::<64>)).flops();
    let mut group = c.benchmark_group("attention/layer, 32x64x512, 8 heads");
    group.throughput(Throughput::Elements(u64::try_from(flops).expect("fits 64 bits")));
    group.bench_function("layer", |timer| {
        timer.iter(|| layer.forward(black_box(&x), NoMask, &mut Infer));
    });
    group.bench_function("layer, causal", |timer| {
        timer.iter(|| layer.forward(black_box(&x), Causal, &mut Infer));
    });
    group.bench_function("loop over batch and heads", |timer| {
        timer.iter(|| loop_over_batch_and_heads(&layer, black_box(&x)));
    });
}

fn core(c: &mut Criterion) {
    let q: ByHead<Query<C<64>>> = normal(1);
    let k: ByHead<Key<C<64>>> = normal(2);
    let v: ByHead<Key<C<64>>> = normal(3);
    let attend = || scaled_dot_product_attention(black_box(&q), &k, &v, NoMask);
    let plain = plain_attention(&q.to_vec(), &k.to_vec(), &v.to_vec());
    assert_answers("attention", &attend().to_vec(), &plain, 1e-5);
    let looped = attend_in_a_loop(&q, &k, &v).expect("every index is in range");
    let looped = looped.split_heads::<C<8>>();
    assert_answers("the loop's attention", &looped.to_vec(), &plain, 1e-5);

    let mut group = c.benchmark_group("attention/core, 32x64x512, 8 heads");
    group.throughput(Throughput::Elements(count(4 * 32 * 64 * 64 * 512)));
    group.bench_function("attention", |timer| timer.iter(attend));
    group.bench_function("loop over batch and heads", |timer| {
        timer.iter(|| attend_in_a_loop(black_box(&q), &k, &v));
    });
}

fn setting() -> (Layer, Input) {
    (Layer::xavier(&mut Generator::seeded(1)), normal(2))
}

/// The layer as one writes it by hand: the projections, then each head of each sample by itself.
fn loop_over_batch_and_heads(layer: &Layer, x: &Input) -> Result<Input> {
    let q = layer.q.forward(x, &mut Infer).rename(Seq, Query).split_heads::<C<8>>();
    let k = layer.k.forward(x, &mut Infer).rename(Seq, Key).split_heads::<C<8>>();
    let v = layer.v.forward(x, &mut Infer).rename(Seq, Key).split_heads::<C<8>>();
    Ok(layer.out.forward(&attend_in_a_loop(&q, &k, &v)?, &mut Infer))
}

/// The heads' outputs side by side, one head of one sample after the other.
fn attend_in_a_loop(
    q: &ByHead<Query<C<64>>>,
    k: &ByHead<Key<C<64>>>,
    v: &ByHead<Key<C<64>>>,
) -> Result<Input> {
    let mut merged = vec![0.0; 32 * 64 * 512];
    for sample in 0..32 {
        for head in 0..8 {
            let q = q.try_select(Batch, sample)?.try_select(Heads, head)?;
            let k = k.try_select(Batch, sample)?.try_select(Heads, head)?;
            let v = v.try_select(Batch, sample)?.try_select(Heads, head)?;
            let scores = q.dot(&k.transpose(Key, HeadDim), HeadDim).mul_scalar(0.125);
            let y = scores.softmax(Key).dot(&v, Key);
            let rows = y.as_arrays().into_iter().flatten();
            for (position, row) in rows.enumerate() {
                merged[(sample * 64 + position) * 512 + head * 64..][..64].copy_from_slice(row);
            }
        }
    }
    Tensor::try_from_vec((Batch(C), Seq(C), Model(C)), merged)
}

/// The layer without masks and biases (they are 0), in float64 but for what stands between its steps.
fn plain_layer(layer: &Layer, x: &Input) -> Vec<f64> {
    let x = x.to_vec();
    type Weight = Tensor<(Model<C<512>>, Model<C<512>>)>;
    let project =
        |x: &[f32], weight: &Weight| plain_products(x, &weight.to_vec(), [1, 32 * 64, 512, 512]);
    let heads = |weight: &Weight| {
        let projected: Input =
            Tensor::try_from_vec((Batch(C), Seq(C), Model(C)), rounded(&project(&x, weight)))
                .expect("as many elements as the shape has");
        projected.split_heads::<C<8>>().to_vec()
    };
    let [q, k, v] = [&layer.q, &layer.k, &layer.v].map(|linear| heads(&linear.weight.value()));
    let shape = (Batch(C), Heads(C), Seq(C), HeadDim(C));
    let y: ByHead<Seq<C<64>>> = Tensor::try_from_vec(shape, rounded(&plain_attention(&q, &k, &v)))
        .expect("as many elements as the shape has");
    project(&y.merge_heads().to_vec(), &layer.out.weight.value())
}

/// softmax(q · kᵀ / 8) · v for 256 heads of 64 positions and features.
fn plain_attention(q: &[f32], k: &[f32], v: &[f32]) -> Vec<f64> {
    let turned: Vec<f32> = k
        .chunks_exact(64 * 64)
        .flat_map(|head| (0..64 * 64).map(|i| head[i % 64 * 64 + i / 64]))
        .collect();
    let scores = plain_products(q, &turned, [256, 64, 64, 64]);
    let scaled: Vec<f64> = scores.iter().map(|score| score / 8.0).collect();
    let weights = plain_softmax(&rounded(&scaled), 64);
    plain_products(&rounded(&weights), v, [256, 64, 64, 64])
}

#[allow(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn rounded(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

/// Runs the layer and the loop in turns, and prints how many times faster the layer is.
fn report_ratios() {
    let (layer, x) = setting();
    let q = layer.q.forward(&x, &mut Infer).rename(Seq, Query).split_heads::<C<8>>();
    let k = layer.k.forward(&x, &mut Infer).rename(Seq, Key).split_heads::<C<8>>();
    let v = layer.v.forward(&x, &mut Infer).rename(Seq, Key).split_heads::<C<8>>();
    report_ratio(
        "whole layer",
        || drop(black_box(layer.forward(black_box(&x), NoMask, &mut Infer))),
        || drop(black_box(loop_over_batch_and_heads(&layer, black_box(&x)))),
    );
    report_ratio(
        "attention alone",
        || drop(black_box(scaled_dot_product_attention(black_box(&q), &k, &v, NoMask))),
        || drop(black_box(attend_in_a_loop(black_box(&q), &k, &v))),
    );
}

fn report_ratio(what: &str, batched: impl Fn(), looped: impl Fn()) {
    let time = |run: &dyn Fn()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let (mut fast, mut slow): (Vec<Duration>, Vec<Duration>) =
        (0..15).map(|_| (time(&batched), time(&looped))).unzip();
    fast.sort_unstable();
    slow.sort_unstable();
    let ratio = |at: usize| slow[at].as_secs_f64() / fast[at].as_secs_f64();
    println!(
        "{what}: the loop over batch and heads takes {:.2} times as long (median; minima {:.2}): \
         {:.2?} against {:.2?}",
        ratio(7),
        ratio(0),
        slow[7],
        fast[7]
    );
}
