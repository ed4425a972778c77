//! Attention of one query, a step of decoding: what it reads of keys and values, in bytes per second.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shapeproof::{
    Batch, C, HeadDim, Heads, Key, KvHeads, NoMask, Query, Size, Tensor,
    scaled_dot_product_attention,
};
use std::hint::black_box;
use support::{assert_answers, count, normal, plain_products, plain_softmax};

criterion_group! { name = benches; config = support::criterion(); targets = every_head, grouped }
criterion_main!(benches);

const KEYS: usize = 1024;
const D: usize = 64;

type Queries<H> = Tensor<(Batch<C<1>>, Heads<H>, Query<C<1>>, HeadDim<C<D>>)>;

fn every_head(c: &mut Criterion) {
    type Keys = Tensor<(Batch<C<1>>, Heads<C<12>>, Key<C<KEYS>>, HeadDim<C<D>>)>;
    let q: Queries<C<12>> = normal(1);
    let (k, v): (Keys, Keys) = (normal(2), normal(3));
    let name = "decode/12 heads, 1024 keys";
    bench(c, name, [&q.to_vec(), &k.to_vec(), &v.to_vec()], 1, || {
        scaled_dot_product_attention(black_box(&q), &k, &v, NoMask)
    });
}

fn grouped(c: &mut Criterion) {
    type Keys = Tensor<(Batch<C<1>>, KvHeads<C<3>>, Key<C<KEYS>>, HeadDim<C<D>>)>;
    let q: Queries<C<12>> = normal(4);
    let (k, v): (Keys, Keys) = (normal(5), normal(6));
    let name = "decode/12 heads in 3 groups, 1024 keys";
    bench(c, name, [&q.to_vec(), &k.to_vec(), &v.to_vec()], 4, || {
        scaled_dot_product_attention(black_box(&q), &k, &v, NoMask)
    });
}

/// `values` are Q, K and V; `shared` heads of Q read one of K and V.
fn bench<H: Size>(
    c: &mut Criterion,
    name: &str,
    values: [&[f32]; 3],
    shared: usize,
    attend: impl Fn() -> Queries<H>,
) {
    assert_answers(name, &attend().to_vec(), &plain_attention(values, shared), 1e-5);
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Bytes(count(2 * size_of_val(values[1]))));
    group.bench_function("one query", |timer| timer.iter(&attend));
}

/// softmax(q · kᵀ / 8) · v, in float64 but for what stands between the steps.
#[allow(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn plain_attention([q, k, v]: [&[f32]; 3], shared: usize) -> Vec<f64> {
    let rounded = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect::<Vec<_>>();
    let head = KEYS * D;
    let turned: Vec<f32> =
        k.chunks_exact(head).flat_map(|k| (0..head).map(|i| k[i % KEYS * D + i / KEYS])).collect();
    let groups = k.len() / head;
    let scores = plain_products(q, &turned, [groups, shared, D, KEYS]);
    let weights = plain_softmax(&rounded(scores.iter().map(|x| x / 8.0).collect()), KEYS);
    plain_products(&rounded(weights), v, [groups, shared, KEYS, D])
}
