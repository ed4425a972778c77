//! The most that any matrix product could reach here: fused multiply-adds on numbers that never leave
//! the registers, on every thread at once.

use std::hint::black_box;
use std::time::Instant;

/// Rounds of one burst: short, so that other work on the machine leaves some of them alone.
const ROUNDS: usize = 100_000;
const BURSTS: usize = 100;

/// GFLOP/s of `threads` threads together, each at its best burst.
pub fn gflops(threads: usize) -> f64 {
    std::thread::scope(|scope| {
        let bursts: Vec<_> = (0..threads).map(|_| scope.spawn(best_burst)).collect();
        bursts.into_iter().map(|best| best.join().expect("multiply-adds do not panic")).sum()
    })
}

fn best_burst() -> f64 {
    let (operations, burn) = widest();
    let seconds = (0..BURSTS).map(|_| {
        let start = Instant::now();
        burn();
        start.elapsed().as_secs_f64()
    });
    operations as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e9
}

/// The widest loop that this processor runs, and the operations of a call.
fn widest() -> (usize, fn()) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            return (ROUNDS * 12 * 16 * 2, || unsafe { x86::avx512() });
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            return (ROUNDS * 12 * 8 * 2, || unsafe { x86::avx2() });
        }
    }
    (ROUNDS / 8 * 32 * 2, portable)
}

/// 32 independent sums, for the compiler to put into vectors.
fn portable() {
    let factor = black_box(0.999_f32);
    let mut sums = black_box([1.0_f32; 32]);
    for _ in 0..ROUNDS / 8 {
        for sum in &mut sums {
            *sum = *sum * factor + factor;
        }
    }
    black_box(sums);
}

/// Twelve chains hide the latency of a multiply-add: four to five cycles, two begun in each.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ROUNDS, black_box};
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};

    #[target_feature(enable = "avx2,fma")]
    pub fn avx2() {
        let factor = _mm256_set1_ps(black_box(0.999));
        let mut sums = black_box([_mm256_set1_ps(1.0); 12]);
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f")]
    pub fn avx512() {
        let factor = _mm512_set1_ps(black_box(0.999));
        let mut sums = black_box([_mm512_set1_ps(1.0); 12]);
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
    }
}
