//! Softmax, layer norm and GELU, beside copying the same bytes to memory that is there: the least that
//! anything could cost that reads its input and writes its output.

mod support;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use shapeproof::{Batch, C, Heads, Infer, Key, LayerNorm, Query, Size, Tensor};
use std::hint::black_box;
use support::{assert_answers, count, normal, plain_softmax};

criterion_group! { name = benches; config = support::criterion(); targets = short_rows, long_rows }
criterion_main!(benches);

fn short_rows(c: &mut Criterion) {
    rows(c, "rows/256x64x64", &normal::<Scores<C<32>, C<8>, C<64>>>(1));
}

fn long_rows(c: &mut Criterion) {
    rows(c, "rows/12x512x512", &normal::<Scores<C<1>, C<12>, C<512>>>(2));
}

type Scores<B, H, S> = (Batch<B>, Heads<H>, Query<S>, Key<S>);

fn rows<B: Size, H: Size, S: Size>(c: &mut Criterion, name: &str, x: &Tensor<Scores<B, H, S>>) {
    let values = x.to_vec();
    let plain = plain_softmax(&values, x.dims()[3]);
    assert_answers(name, &x.softmax(Key).to_vec(), &plain, 1e-6);

    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Bytes(2 * count(size_of_val(&values[..]))));
    copy(&mut group, &values);
    group.bench_function("softmax", |timer| timer.iter(|| black_box(x).softmax(Key)));
    let mut alone = x.map(|x| x);
    group.bench_function("softmax in place", |timer| {
        timer.iter(|| black_box(&mut alone).softmax_in_place(Key));
    });
    group.bench_function("log softmax", |timer| timer.iter(|| black_box(x).log_softmax(Key)));
    let norm = LayerNorm::<Key<S>>::new_in((x.shape().3,), 1e-5);
    group.bench_function("layer norm", |timer| {
        timer.iter(|| norm.forward(black_box(x), &mut Infer));
    });
    group.bench_function("sum of two", |timer| timer.iter(|| black_box(x).add(x)));
    group.bench_function("relu", |timer| timer.iter(|| black_box(x).relu()));
    group.bench_function("gelu", |timer| timer.iter(|| black_box(x).gelu()));
}

/// On as many threads as the operations have.
fn copy(group: &mut BenchmarkGroup<'_, WallTime>, values: &[f32]) {
    let mut to = vec![0.0; values.len()];
    let each = values.len().div_ceil(rayon::current_num_threads());
    group.bench_function("copy", |timer| {
        timer.iter(|| {
            rayon::scope(|scope| {
                for (from, to) in black_box(values).chunks(each).zip(to.chunks_mut(each)) {
                    scope.spawn(move |_| to.copy_from_slice(from));
                }
            });
        });
    });
}
