//! What the benches share: settings that keep a whole run short, and plain loops in float64 that the
//! answers are held against before the clock starts.

#![allow(dead_code, reason = "each bench uses its own part of this module")]

use criterion::Criterion;
use shapeproof::{Generator, Shape, Tensor};
use std::time::Duration;

/// Few and short samples: a whole `cargo bench` takes some minutes, not an hour.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
}

/// A tensor of standard normal numbers; the same for the same seed.
pub(crate) fn normal<S: Shape + Default>(seed: u64) -> Tensor<S> {
    Tensor::normal(0.0, 1.0, &mut Generator::seeded(seed))
}

/// Elements, operations or bytes as criterion counts them.
pub(crate) fn count(n: usize) -> u64 {
    u64::try_from(n).expect("no bench counts beyond 64 bits")
}

/// `batch` products of `(rows, inner)` and `(inner, columns)`, summed in float64.
pub(crate) fn plain_products(
    a: &[f32],
    b: &[f32],
    [batch, rows, inner, columns]: [usize; 4],
) -> Vec<f64> {
    let mut out = vec![0.0; batch * rows * columns];
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        let b = &b[row / rows * inner * columns..][..inner * columns];
        for (x, b) in a[row * inner..][..inner].iter().zip(b.chunks_exact(columns)) {
            for (sum, y) in out.iter_mut().zip(b) {
                *sum += f64::from(*x) * f64::from(*y);
            }
        }
    }
    out
}

/// The softmax of each row, in float64.
pub(crate) fn plain_softmax(scores: &[f32], row: usize) -> Vec<f64> {
    let of_row = |row: &[f32]| {
        let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let exps: Vec<f64> = row.iter().map(|x| (f64::from(*x) - largest).exp()).collect();
        let sum: f64 = exps.iter().sum();
        exps.into_iter().map(move |x| x / sum)
    };
    scores.chunks_exact(row).flat_map(of_row).collect()
}

/// Stops the bench where an answer differs from the plain loop's by more than `tolerance`, or by
/// more than that share of it.
pub(crate) fn assert_answers(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: the number of elements");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (f64::from(*found) - expected).abs();
        assert!(
            off <= tolerance * expected.abs().max(1.0),
            "{what}: element {i} is {found}, not {expected}"
        );
    }
}
