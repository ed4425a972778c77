//! Matrix products: a large one, many small ones, and few samples against the weight of a layer.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shapeproof::{
    Batch, C, Hidden, Infer, Key, Linear, Model, NoBias, Query, Seq, Tensor, ValueDim,
};
use std::hint::black_box;
use support::{assert_answers, count, normal, plain_products};

criterion_group! { name = benches; config = support::criterion(); targets = large, small, weight }
criterion_main!(benches);

fn large(c: &mut Criterion) {
    let a: Tensor<(Query<C<512>>, Key<C<512>>)> = normal(1);
    let b: Tensor<(Key<C<512>>, ValueDim<C<512>>)> = normal(2);
    let plain = plain_products(&a.to_vec(), &b.to_vec(), [1, 512, 512, 512]);
    assert_answers("512x512x512", &a.dot(&b, Key).to_vec(), &plain, 1e-4);
    let transposed = b.transpose(Key, ValueDim).packed().transpose(Key, ValueDim);
    assert_answers("512x512x512ᵀ", &a.dot(&transposed, Key).to_vec(), &plain, 1e-4);

    let mut group = c.benchmark_group("matmul/512x512x512");
    group.throughput(Throughput::Elements(flops(1, 512, 512, 512)));
    group.bench_function("plain", |timer| timer.iter(|| black_box(&a).dot(black_box(&b), Key)));
    group.bench_function("right side transposed", |timer| {
        timer.iter(|| black_box(&a).dot(black_box(&transposed), Key));
    });
}

fn small(c: &mut Criterion) {
    let a: Tensor<(Batch<C<256>>, Query<C<64>>, Key<C<64>>)> = normal(3);
    let b: Tensor<(Batch<C<256>>, Key<C<64>>, ValueDim<C<64>>)> = normal(4);
    let plain = plain_products(&a.to_vec(), &b.to_vec(), [256, 64, 64, 64]);
    assert_answers("256 of 64x64x64", &a.dot(&b, Key).to_vec(), &plain, 1e-4);

    let mut group = c.benchmark_group("matmul/256 of 64x64x64");
    group.throughput(Throughput::Elements(flops(256, 64, 64, 64)));
    group.bench_function("plain", |timer| timer.iter(|| black_box(&a).dot(black_box(&b), Key)));
}

fn weight(c: &mut Criterion) {
    let x: Tensor<(Batch<C<1>>, Seq<C<8>>, Model<C<512>>)> = normal(5);
    let weight: Tensor<(Model<C<512>>, Hidden<C<512>>)> = normal(6);
    let plain = plain_products(&x.to_vec(), &weight.to_vec(), [1, 8, 512, 512]);
    let layer = Linear::<_, _, NoBias>::without_bias(weight.clone());
    assert_answers("the layer", &layer.forward(&x, &mut Infer).to_vec(), &plain, 1e-4);
    // Out by in, as files have it.
    let turned = weight.transpose(Model, Hidden).packed().transpose(Model, Hidden);
    assert_answers("the turned weight", &x.dot(&turned, Model).to_vec(), &plain, 1e-4);

    let mut group = c.benchmark_group("matmul/8x512x512");
    group.throughput(Throughput::Elements(flops(1, 8, 512, 512)));
    group.bench_function("a layer's weight", |timer| {
        timer.iter(|| layer.forward(black_box(&x), &mut Infer));
    });
    group.bench_function("a weight over (out, in)", |timer| {
        timer.iter(|| black_box(&x).dot(black_box(&turned), Model));
    });
}

/// Multiplications and additions of `batch` products.
fn flops(batch: usize, rows: usize, inner: usize, columns: usize) -> u64 {
    count(2 * batch * rows * inner * columns)
}
