//! The formulas of the gradients in f64, over whole matrices, and what tests compare them with.

use super::*;
use crate::kernel::attention::twin::{Case, at, entry, position, slow};
use crate::kernel::attention::{Out, Sums, attention_on};
use crate::kernel::layout::Layout;
use crate::kernel::testing::{Block, Rng};

/// What a gradient is given for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Of {
    Out,
    LogSums,
    Weights,
    Scores,
}

pub(super) const ALL: [Of; 4] = [Of::Out, Of::LogSums, Of::Weights, Of::Scores];

/// A gradient of that.
pub(super) fn upstream<E: Float>(rng: &mut Rng, case: &Case<E>, of: Of) -> Block<E> {
    let [b, h, q, k] = case.dims();
    match of {
        Of::Out => rng.block(&[b, h, q, case.x[2].layout.dims[3]]),
        Of::LogSums => rng.block(&[b, h, q]),
        Of::Weights | Of::Scores => rng.block(&[b, h, q, k]),
    }
}

/// The gradients by the kernels.
pub(super) fn run<E: Float>(
    isa: Isa,
    case: &Case<E>,
    settings: &Settings<E>,
    mask: &Mask<E>,
    given: (Of, View<E>),
) -> Gradients<E> {
    run_as(false, isa, case, settings, mask, given)
}

/// As [`run`], those of Q, K and V together or not.
pub(super) fn run_as<E: Float>(
    together: bool,
    isa: Isa,
    case: &Case<E>,
    settings: &Settings<E>,
    mask: &Mask<E>,
    (of, up): (Of, View<E>),
) -> Gradients<E> {
    let [b, h, q, k] = case.dims();
    let dv = case.x[2].layout.dims[3];
    let mut out = vec![E::default(); b * h * q * dv];
    let mut weights = vec![E::default(); b * h * q * k];
    let mut sums = [0; 2].map(|_| vec![E::Wide::default(); b * h * q]);
    let parts = Sums::Parts(sums.each_mut().map(|part| &mut part[..]));
    let to = Out { out: &mut out, weights: Some(&mut weights), sums: parts };
    attention_on(isa, case.views(), settings, mask, to);
    let layout = Layout::packed(&[b, q, h, dv]).permuted(&[0, 2, 1, 3]);
    let out = View { data: &out[..], layout };
    let weights = View { data: &weights[..], layout: Layout::packed(&case.dims()) };
    let given = match of {
        Of::Out => Given::Out(up, out),
        Of::LogSums => Given::LogSums(up),
        Of::Weights => Given::Weights(up, weights),
        Of::Scores => Given::Scores(up),
    };
    let sums = (of != Of::Scores).then(|| sums.each_ref().map(|part| &part[..]));
    let forward = Forward { views: case.views(), settings, mask, sums, together };
    backward_on(isa, &forward, given, true)
}

/// The twin: the formulas in f64, over whole matrices.
pub(super) fn slow_backward(
    case: &Case<f64>,
    settings: &Settings<f64>,
    mask: &Mask<f64>,
    (of, up): (Of, &Block<f64>),
) -> Gradients<f64> {
    let views @ [q, k, v] = case.views();
    let [batch, heads, queries, keys] = case.dims();
    let [d, groups] = [q.layout.dims[3], k.layout.dims[1]];
    let dv = if of == Of::Out { v.layout.dims[3] } else { 0 };
    let [out, dropped, log_sums, scores] = slow(views, settings, mask);
    let kept = Settings { dropout: None, ..settings.clone() };
    let [_, weights, ..] = slow(views, &kept, mask);
    let entries = settings.relative.as_ref().map_or(0, |relative| 2 * relative.max + 1);
    let zeros = |dims: &[usize]| vec![0.0; dims.iter().product()];
    let mut to = Gradients {
        q: zeros(&[batch, heads, queries, d]),
        k: zeros(&[batch, groups, keys, d]),
        v: zeros(&[batch, groups, keys, dv]),
        scores: zeros(&[batch, heads, queries, keys]),
        distances: mask.distances.iter().map(|x| zeros(&[heads, x.table.layout.dims[1]])).collect(),
        slopes: mask.slopes.iter().map(|_| zeros(&[heads])).collect(),
        sinks: mask.sinks.iter().map(|_| zeros(&[heads])).collect(),
        products: zeros(&[batch, heads, queries, entries]),
        values: settings.relative_values().map_or(vec![], |_| zeros(&[entries, dv])),
    };
    for row in 0..batch * heads * queries {
        let (b, h, i) = (row / queries / heads, row / queries % heads, row % queries);
        let g = h / (heads / groups);
        let each = up.data.len() / (batch * heads * queries);
        let up = &up.data[row * each..][..each];
        let out = &out[((b * queries + i) * heads + h) * dv..][..dv];
        let dropped = &dropped[row * keys..][..keys];
        let sum = |with: &[f64]| up.iter().zip(with).map(|(up, with)| up * with).sum::<f64>();
        let delta = match of {
            Of::Out => sum(out),
            Of::LogSums => -up[0],
            Of::Weights => sum(dropped),
            Of::Scores => 0.0,
        };
        let row_weights = &weights[row * keys..][..keys];
        let seen = |&(j, &weight): &(usize, &f64)| match of {
            Of::Scores => scores[row * keys + j] != f64::NEG_INFINITY,
            _ => weight != 0.0,
        };
        let dropout =
            settings.dropout.map(|x| (x.row((mask.first * heads * queries) + row), x.factor()));
        for (j, &weight) in row_weights.iter().enumerate().filter(seen) {
            let factor =
                dropout.map_or(1.0, |(row, factor)| if row.keeps(j) { factor } else { 0.0 });
            let t = settings.relative.as_ref().map_or(0, |_| entry(settings, b, i, j));
            let relative = |c| settings.relative_values().map_or(0.0, |values| at(values, &[t, c]));
            let product: f64 = (0..dv).map(|c| up[c] * (at(&v, &[b, g, j, c]) + relative(c))).sum();
            let product = if of == Of::Weights { up[j] } else { product };
            let d_score = match of {
                Of::Scores => up[j],
                _ => weight * (product * factor - delta),
            };
            for (c, up) in up.iter().enumerate().take(dv) {
                to.v[((b * groups + g) * keys + j) * dv + c] += weight * factor * up;
                if !to.values.is_empty() {
                    to.values[t * dv + c] += weight * factor * up;
                }
            }
            to.scores[row * keys + j] = d_score;
            if let Some(j) = j.checked_sub(mask.extra) {
                for (x, sums) in mask.distances.iter().zip(&mut to.distances) {
                    let n = x.table.layout.dims[1];
                    let distance = j as isize - position(x.offset, b, i) - x.first;
                    if n > 0 {
                        sums[h * n + distance.clamp(0, n as isize - 1) as usize] += d_score;
                    }
                }
                for (x, sums) in mask.slopes.iter().zip(&mut to.slopes) {
                    let distance = (j as isize - position(x.offset, b, i)).unsigned_abs();
                    sums[h] -= d_score * distance as f64;
                }
            }
            let mut score: f64 =
                (0..d).map(|c| at(&q, &[b, h, i, c]) * at(&k, &[b, g, j, c])).sum();
            if let Some(products) = settings.relative.as_ref().and_then(|x| x.products.as_ref()) {
                score += at(products, &[b, h, i, t]);
            }
            let soft = |cap: f64| 1.0 - (score * settings.scale / cap).tanh().powi(2);
            let d_product = d_score * settings.softcap.map_or(1.0, soft) * settings.scale;
            for c in 0..d {
                to.q[row * d + c] += d_product * at(&k, &[b, g, j, c]);
                to.k[((b * groups + g) * keys + j) * d + c] += d_product * at(&q, &[b, h, i, c]);
            }
            if entries > 0 {
                to.products[row * entries + t] += d_product;
            }
        }
        for (sinks, sums) in mask.sinks.iter().zip(&mut to.sinks).filter(|_| of != Of::Scores) {
            let weight = (at(sinks, &[h]) - log_sums[row]).exp();
            sums[h] -= if weight.is_finite() { weight * delta } else { 0.0 };
        }
    }
    to
}

pub(super) fn lists<E: Float>(gradients: &Gradients<E>) -> Vec<(&'static str, Vec<f64>)> {
    let Gradients { q, k, v, scores, distances, slopes, sinks, products, values } = gradients;
    let one = |name, values: &Vec<E>| (name, values.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
    let mut all = vec![
        one("q", q),
        one("k", k),
        one("v", v),
        one("scores", scores),
        one("products", products),
        one("values", values),
    ];
    all.extend(distances.iter().map(|x| one("distances", x)));
    all.extend(slopes.iter().map(|x| one("slopes", x)));
    all.extend(sinks.iter().map(|x| one("sinks", x)));
    all
}

pub(super) fn compare<E: Float, F: Float>(
    found: &Gradients<E>,
    exact: &Gradients<F>,
    allowed: f64,
    what: &str,
) {
    for ((name, found), (_, exact)) in lists(found).into_iter().zip(lists(exact)) {
        assert_eq!(found.len(), exact.len(), "{what} {name}");
        let largest = exact.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
        // Sums of many numbers, times distances, that nearly cancel.
        let largest = if name == "slopes" { 100.0 * largest } else { largest };
        for (i, (found, exact)) in found.iter().zip(&exact).enumerate() {
            assert!(
                (found - exact).abs() <= allowed * largest,
                "{what} {name} {i}: {found} {exact}"
            );
        }
    }
}
