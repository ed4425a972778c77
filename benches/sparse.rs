//! Attention that does not look everywhere: time against length for a window, against density for blocks,
//! and linear attention beside the exact one. 8 heads of 64, causal; throughput in queries.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shapeproof::{
    Batch, BlockMask, C, Causal, FeatureMap, Generator, HeadDim, Heads, Key, LinearAttention,
    MaskFor, Query, Size, SlidingWindow, Static, Tensor, dyn_size, scaled_dot_product_attention,
};
use std::hint::black_box;
use support::{assert_answers, count};

criterion_group! { name = benches; config = support::criterion(); targets = window, blocks, linear }
criterion_main!(benches);

type H = Heads<C<8>>;
type D = HeadDim<C<64>>;
type Queries<Q> = Tensor<(Batch<C<1>>, H, Query<Q>, D)>;
type Keys<K> = Tensor<(Batch<C<1>>, H, Key<K>, D)>;
type Scores<L> = (Batch<C<1>>, H, Query<L>, Key<L>);

/// Queries, keys and values of a length.
fn inputs<L: Size>(len: L) -> (Queries<L>, Keys<L>, Keys<L>) {
    let mut generator = Generator::seeded(1);
    let q = (Batch(C), Heads(C), Query(len), HeadDim(C));
    let k = (Batch(C), Heads(C), Key(len), HeadDim(C));
    (
        Tensor::normal_in(q, 0.0, 1.0, &mut generator),
        Tensor::normal_in(k, 0.0, 1.0, &mut generator),
        Tensor::normal_in(k, 0.0, 1.0, &mut generator),
    )
}

/// That a mask gives what the boolean tensor of the same meaning gives, at a length of 512.
fn check(what: &str, mask: impl MaskFor<Scores<C<512>>>, sees: impl Fn(usize, usize) -> bool) {
    let (q, k, v) = inputs(C::<512>);
    let flags = Tensor::<(Query<C<512>>, Key<C<512>>), bool>::from_fn(|at| sees(at[0], at[1]));
    let plain: Vec<f64> = scaled_dot_product_attention(&q, &k, &v, &flags)
        .to_vec()
        .into_iter()
        .map(f64::from)
        .collect();
    assert_answers(what, &scaled_dot_product_attention(&q, &k, &v, mask).to_vec(), &plain, 1e-5);
}

fn window(c: &mut Criterion) {
    const W: usize = 256;
    let window = SlidingWindow::causal::<C<W>>;
    check("a window", window(), |query, key| key <= query && query < key + W);
    let mut group = c.benchmark_group("sparse/window of 256");
    for len in [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15] {
        dyn_size!(length = len);
        let (q, k, v) = inputs(length);
        group.throughput(Throughput::Elements(count(len)));
        group.bench_function(BenchmarkId::from_parameter(len), |timer| {
            timer.iter(|| scaled_dot_product_attention(black_box(&q), &k, &v, window()));
        });
    }
}

fn blocks(c: &mut Criterion) {
    type L = C<4096>;
    /// One in `share` of the blocks, and those on the diagonal.
    fn seen(share: usize) -> impl Fn(usize, usize) -> bool + Copy {
        move |query, key| (query * 7 + key).is_multiple_of(share) || query == key
    }
    let few = BlockMask::from_fn::<C<64>>(Query(C), Key(C), seen(4));
    check("blocks", few, |query, key| seen(4)(query / 64, key / 64));
    let (q, k, v) = inputs(L::default());
    let mut group = c.benchmark_group("sparse/blocks of 64, 4096 positions");
    group.throughput(Throughput::Elements(count(L::N)));
    group.bench_function("dense", |timer| {
        timer.iter(|| {
            let mask = shapeproof::NoMask;
            scaled_dot_product_attention(black_box(&q), &k, &v, mask)
        });
    });
    for share in [1, 4, 16] {
        let mask = BlockMask::from_fn::<C<64>>(Query(C), Key(C), seen(share));
        let name = format!("density {:.4}", mask.density());
        group.bench_function(name, |timer| {
            timer.iter(|| scaled_dot_product_attention(black_box(&q), &k, &v, &mask));
        });
    }
}

fn linear(c: &mut Criterion) {
    let mut group = c.benchmark_group("sparse/linear attention");
    for len in [1 << 10, 1 << 12] {
        dyn_size!(length = len);
        let (q, k, v) = inputs(length);
        group.throughput(Throughput::Elements(count(len)));
        group.bench_function(BenchmarkId::new("exact, causal", len), |timer| {
            timer.iter(|| scaled_dot_product_attention(black_box(&q), &k, &v, Causal));
        });
        let features = [
            ("elu + 1, causal", FeatureMap::EluPlusOne),
            ("relu, causal", FeatureMap::Relu),
            ("normalized, causal", FeatureMap::Normalized),
        ];
        for (name, features) in features {
            let attention = LinearAttention::new(features);
            group.bench_function(BenchmarkId::new(name, len), |timer| {
                timer.iter(|| attention.apply(black_box(&q), &k, &v, Causal));
            });
        }
        let attention = LinearAttention::new(FeatureMap::EluPlusOne);
        group.bench_function(BenchmarkId::new("elu + 1, both ways", len), |timer| {
            timer.iter(|| attention.apply(black_box(&q), &k, &v, shapeproof::NoMask));
        });
    }
}
