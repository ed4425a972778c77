//! Splitting the model width into heads and merging them: free as views, a copy where the order in
//! memory has to change.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shapeproof::{Batch, C, HeadDim, Heads, Model, Seq, Tensor};
use std::hint::black_box;
use support::{count, normal};

criterion_group! { name = benches; config = support::criterion(); targets = split_and_merge }
criterion_main!(benches);

fn split_and_merge(c: &mut Criterion) {
    let x: Tensor<Merged> = normal(1);
    let view = x.split_heads::<C<8>>();
    let packed = view.packed();
    assert_places(&x.to_vec(), &packed.to_vec());
    assert_eq!(merge(&view), x, "merging what was split, as views");
    assert_eq!(merge(&packed), x, "merging what was split and packed");

    let mut group = c.benchmark_group("heads/32x64x512 by 8");
    group.throughput(Throughput::Elements(count(x.count())));
    group.bench_function("split", |timer| timer.iter(|| black_box(&x).split_heads::<C<8>>()));
    group.bench_function("split and pack", |timer| {
        timer.iter(|| black_box(&x).split_heads::<C<8>>().packed());
    });
    group.bench_function("merge a view", |timer| timer.iter(|| merge(black_box(&view))));
    group.bench_function("merge packed heads", |timer| timer.iter(|| merge(black_box(&packed))));
}

type Merged = (Batch<C<32>>, Seq<C<64>>, Model<C<512>>);
type Split = (Batch<C<32>>, Heads<C<8>>, Seq<C<64>>, HeadDim<C<64>>);

fn merge(heads: &Tensor<Split>) -> Tensor<Merged> {
    heads.merge_heads()
}

/// Feature f of position s lies in head f / 64 at f % 64.
fn assert_places(x: &[f32], heads: &[f32]) {
    for (i, value) in x.iter().enumerate() {
        let (sample, position, head, feature) = (i / (64 * 512), i / 512 % 64, i / 64 % 8, i % 64);
        let place = ((sample * 8 + head) * 64 + position) * 64 + feature;
        assert_eq!(heads[place].to_bits(), value.to_bits(), "element {i}");
    }
}
