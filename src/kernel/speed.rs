//! What the kernels reach, in GFLOP/s and GB/s: `cargo test --release speed -- --ignored --nocapture`.

use super::attention::{Band, Diagonal, Mask, Settings, attention};
use super::elementwise::{map, zip};
use super::gemm::{Epilogue, gemm_into, gemm_packed_to, pack_b};
use super::layout::{Layout, View};
use super::math::{Exponential, Gelu, Silu, Tanh, relu};
use super::norm::{Norm, normalized};
use super::output::place;
use super::pointwise;
use super::simd::Isa;
use super::softmax::Softmax::{Logarithms, Weights};
use super::softmax::{softmax, softmax_in_place};
use super::testing::Rng;
use crate::element::Float;
use half::{bf16, f16};
use num_traits::Zero;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Prints the best rate of `f` on one thread.
fn rate(name: &str, operations: usize, f: impl FnMut() + Send) {
    let best = best_time(1, f);
    println!("{name:40} {:8.1} GFLOP/s {best:9.1?}", operations as f64 / best.as_secs_f64() / 1e9);
}

fn best_time(threads: usize, mut f: impl FnMut() + Send) -> Duration {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let (start, mut best) = (Instant::now(), Duration::MAX);
        while start.elapsed() < Duration::from_millis(700) {
            let start = Instant::now();
            f();
            best = best.min(start.elapsed());
        }
        best
    })
}

#[test]
#[ignore = "measures"]
fn speed_of_products() {
    products::<f32>();
    products::<bf16>();
    products::<f16>();
    let mut rng = Rng::new(1);
    let (a, b) = (rng.block::<f64>(&[512, 512]), rng.block::<f64>(&[512, 512]));
    let (mut out, layout) = (vec![0f64; 512 * 512], a.layout);
    rate("512 x 512 x 512 f64", 2 * out.len() * 512, || {
        gemm_into(Isa::best(), black_box(a.view()), b.view(), Epilogue::NONE, &mut out, &layout);
    });
}

fn products<E: Float>() {
    println!("{}", E::NAME);
    let mut rng = Rng::new(1);
    for (m, k, n) in [
        (2048, 512, 1536),
        (2048, 512, 512),
        (128, 384, 384),
        (512, 768, 2304),
        (2048, 768, 3072),
        (2048, 3072, 768),
        (8, 512, 512),
        (1, 768, 768),
    ] {
        let (a, b) = (rng.block::<E>(&[m, k]), rng.block::<E>(&[k, n]));
        let transposed = rng.block::<E>(&[n, k]);
        let transposed = View { layout: transposed.layout.transposed(), ..transposed.view() };
        let packed = pack_b(b.view());
        let (mut out, layout) = (vec![E::narrow(<_>::zero()); m * n], Layout::packed(&[m, n]));
        let name = format!("{m} x {k} x {n}");
        rate(&format!("{name} packed before"), 2 * m * k * n, || {
            // SAFETY: a product writes numbers.
            let out = unsafe { place(&mut out) };
            gemm_packed_to(black_box(a.view()), &packed, Epilogue::NONE, out);
        });
        rate(&name, 2 * m * k * n, || {
            gemm_into(Isa::best(), black_box(a.view()), b.view(), Epilogue::NONE, &mut out, &layout)
        });
        rate(&format!("{name} transposed"), 2 * m * k * n, || {
            gemm_into(
                Isa::best(),
                black_box(a.view()),
                transposed,
                Epilogue::NONE,
                &mut out,
                &layout,
            );
        });
    }
    let (a, b) = (rng.block::<E>(&[256, 64, 64]), rng.block::<E>(&[256, 64, 64]));
    let (mut out, layout) = (vec![E::narrow(<_>::zero()); 256 * 64 * 64], a.layout);
    rate("256 of 64 x 64 x 64", 2 * out.len() * 64, || {
        gemm_into(Isa::best(), black_box(a.view()), b.view(), Epilogue::NONE, &mut out, &layout);
    });
    let transposed = View { layout: b.layout.transposed(), ..b.view() };
    rate("256 of 64 x 64 x 64 transposed", 2 * out.len() * 64, || {
        gemm_into(Isa::best(), black_box(a.view()), transposed, Epilogue::NONE, &mut out, &layout);
    });
}

#[test]
#[ignore = "measures"]
fn speed_of_attention() {
    attentions::<f32>();
    attentions::<bf16>();
    attentions::<f16>();
}

fn attentions<E: Float>() {
    println!("{}", E::NAME);
    let mut rng = Rng::new(2);
    for (batch, heads, len, d) in [
        (1, 8, 64, 64),
        (32, 8, 64, 64),
        (1, 1, 512, 64),
        (1, 1, 2048, 64),
        (1, 12, 2048, 64),
        (1, 1, 8192, 64),
        (1, 4, 1024, 32),
        (1, 4, 1024, 80),
        (1, 4, 1024, 96),
        (1, 4, 1024, 128),
        (1, 4, 1024, 256),
    ] {
        let x = [0; 3].map(|_| rng.block::<E>(&[batch, len, heads, d]));
        let [q, k, v] =
            [0, 1, 2].map(|i| View { layout: x[i].layout.permuted(&[0, 2, 1, 3]), ..x[i].view() });
        let mut out = vec![E::narrow(<_>::zero()); batch * len * heads * d];
        for causal in [false, true] {
            let mut mask = Mask::NONE;
            let mut operations = 4 * batch * heads * len * len * d;
            if causal {
                mask.bands.push(Band::Diagonal(Diagonal { ahead: Some(0), ..Diagonal::ALL }));
                operations = operations / 2 + operations / 2 / len;
            }
            let name = format!("{batch} x {heads} x {len} x {d} causal {causal}");
            rate(&name, operations, || {
                attention([black_box(q), k, v], &Settings::scaled(0.125), &mask, &mut out)
            });
        }
    }
}

/// Few queries: the bytes of K and V that pass by, on one and on two threads.
#[test]
#[ignore = "measures"]
fn speed_of_decoding() {
    let mut rng = Rng::new(4);
    // H, G, Q, K, D
    for [heads, groups, queries, keys, d] in [
        [12, 12, 1, 1025, 64],
        [12, 12, 8, 1025, 64],
        [32, 8, 1, 4096, 128],
        [32, 8, 4, 4096, 128],
        [12, 12, 1, 64, 64],
        [1, 1, 1, 1025, 64],
    ] {
        let q = rng.block::<f32>(&[1, heads, queries, d]);
        let mut out = vec![0f32; heads * queries * d];
        for inside in [false, true] {
            let dims = if inside { [1, keys, groups, d] } else { [1, groups, keys, d] };
            let (k, v) = (rng.block::<f32>(&dims), rng.block::<f32>(&dims));
            let order = if inside { [0, 2, 1, 3] } else { [0, 1, 2, 3] };
            let [k, v] = [&k, &v].map(|x| View { layout: x.layout.permuted(&order), ..x.view() });
            let bytes = (2 * groups * keys * d * size_of::<f32>()) as f64;
            for threads in [1, 2] {
                let best = best_time(threads, || {
                    let views = [black_box(q.view()), k, v];
                    attention(views, &Settings::scaled(0.125), &Mask::NONE, &mut out);
                });
                let name = format!("{heads}/{groups} heads, {queries} x {keys} x {d}");
                let lies = if inside { "[B, L, H, D]" } else { "[B, H, L, D]" };
                let rate = bytes / best.as_secs_f64() / 1e9;
                println!("{name:30} {lies} {threads} threads {rate:6.1} GB/s {best:9.1?}");
            }
        }
    }
}

/// Beside copying the same bytes to memory that is there: in turns, so that what else the machine does
/// falls on all alike.
#[test]
#[ignore = "measures"]
fn speed_of_memory_bound_operations() {
    let mut rng = Rng::new(3);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for dims in [[256, 64, 64], [12, 512, 512], [1, 1, 50257]] {
        let x = rng.block::<f32>(&dims);
        let norm = Norm { size: dims[2], centered: true, epsilon: 1e-5, weight: None, bias: None };
        let (mut to, mut there) = (x.data.clone(), x.data.clone());
        let mut race: [(&str, Box<dyn FnMut() + Send + '_>); _] = [
            ("copy", Box::new(|| to.copy_from_slice(black_box(&x.data)))),
            ("softmax", Box::new(|| drop(black_box(softmax(Weights, x.view(), 2, None))))),
            ("softmax in place", Box::new(|| softmax_in_place(Weights, &mut there, dims[2]))),
            ("log softmax", Box::new(|| drop(black_box(softmax(Logarithms, x.view(), 2, None))))),
            ("layer norm", Box::new(|| drop(black_box(normalized(x.view(), norm))))),
            ("relu", Box::new(|| drop(black_box(map(x.view(), relu::<f32>))))),
            ("sum of two", Box::new(|| drop(black_box(zip(x.view(), x.view(), |a, b| a + b))))),
            ("exp", Box::new(|| drop(black_box(pointwise::map(x.view(), Exponential))))),
            ("tanh", Box::new(|| drop(black_box(pointwise::map(x.view(), Tanh))))),
            ("silu", Box::new(|| drop(black_box(pointwise::map(x.view(), Silu))))),
            ("gelu", Box::new(|| drop(black_box(pointwise::map(x.view(), Gelu))))),
        ];
        let mut best = race.each_ref().map(|_| Duration::MAX);
        pool.install(|| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(1500) {
                for ((_, f), best) in race.iter_mut().zip(&mut best) {
                    let start = Instant::now();
                    f();
                    *best = start.elapsed().min(*best);
                }
            }
        });
        let bytes = 8.0 * x.layout.count() as f64;
        for ((name, _), time) in race.iter().zip(best) {
            let (rate, ratio) = (bytes / time.as_secs_f64() / 1e9, time.div_duration_f64(best[0]));
            println!("{dims:?} {name:18} {time:9.1?} {rate:6.1} GB/s {ratio:6.2} times copying");
        }
    }
}

/// What the multipliers can do: independent products in registers.
#[test]
#[ignore = "measures"]
fn speed_limit() {
    use super::simd::{Kernel, Lanes, Vector};
    struct Limit;
    impl Kernel<f32> for Limit {
        /// The lanes of a vector.
        type Output = usize;
        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = f32>>(self) -> usize {
            // SAFETY: the caller vouches for the instruction set.
            unsafe {
                let mut sums = [V::splat(black_box(0.5)); 12];
                let factor = V::splat(black_box(0.999));
                for _ in 0..1_000_000 {
                    for sum in &mut sums {
                        *sum = sum.mul_add(factor, factor);
                    }
                }
                let mut out = [0f32; 16];
                for sum in sums {
                    sum.store(out.as_mut_ptr());
                    black_box(&out);
                }
                V::LANES
            }
        }
    }
    let lanes = f32::vectorized(Isa::best(), Limit);
    rate("limit", 12 * 2 * lanes * 1_000_000, || {
        f32::vectorized(Isa::best(), Limit);
    });
}
