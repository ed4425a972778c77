//! Softmax over the last axis, beside copying the same bytes: the least that any softmax could cost.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shapeproof::{Batch, C, Heads, Key, Query, Size, Tensor};
use std::hint::black_box;
use support::{assert_answers, count, normal, plain_softmax};

criterion_group! { name = benches; config = support::criterion(); targets = short_rows, long_rows }
criterion_main!(benches);

fn short_rows(c: &mut Criterion) {
    softmax(c, "softmax/256x64x64", &normal::<Scores<C<32>, C<8>, C<64>>>(1));
}

fn long_rows(c: &mut Criterion) {
    softmax(c, "softmax/12x512x512", &normal::<Scores<C<1>, C<12>, C<512>>>(2));
}

type Scores<B, H, S> = (Batch<B>, Heads<H>, Query<S>, Key<S>);

fn softmax<B: Size, H: Size, S: Size>(
    c: &mut Criterion,
    name: &str,
    scores: &Tensor<Scores<B, H, S>>,
) {
    let values = scores.to_vec();
    let plain = plain_softmax(&values, scores.dims()[3]);
    assert_answers(name, &scores.softmax(Key).to_vec(), &plain, 1e-6);

    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(count(scores.count())));
    group.bench_function("softmax", |timer| timer.iter(|| black_box(scores).softmax(Key)));
    group.bench_function("copy", |timer| timer.iter(|| black_box(&values).clone()));
}
