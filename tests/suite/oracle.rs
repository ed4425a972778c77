//! Plain float64 loops that say what the library should compute: slow, obvious, and
//! written from the definitions, with nothing of the library in them.
//!
//! Tensors are row-major slices. What the tests allow is stated beside each of them:
//! by rule [`tolerance`], the rounding of the element type and nothing more.

use shapeproof::Element;

use crate::masks::{Part, Sizes};

/// Relative and absolute: what is allowed of results of size 1 in this element type.
pub(crate) fn tolerance<E: Element>() -> (f64, f64) {
    match E::NAME {
        "f32" => (1e-5, 1e-5),
        "f64" => (1e-13, 1e-13),
        // So many units of rounding: of inputs, of what steps write, of the result.
        "f16" => (8.0 / 2048.0, 8.0 / 2048.0),
        "bf16" => (8.0 / 256.0, 8.0 / 256.0),
        other => panic!("no tolerance for {other}"),
    }
}

/// softmax(q · kᵀ · scale + bias, over the visible keys) · v and its weights, for q
/// over (batch, heads, queries, dim), k and v over (batch, kv heads, keys, …).
///
/// A query that sees nothing gets 0; what is hidden is never looked at.
pub(crate) fn attention(
    sizes: Sizes,
    [q, k, v]: [&[f64]; 3],
    scale: Option<f64>,
    parts: &[Part],
) -> (Vec<f64>, Vec<f64>) {
    let Sizes { batch, heads, kv_heads, queries, keys, dim, value } = sizes;
    let scale = scale.unwrap_or(1.0 / (dim as f64).sqrt());
    let (mut out, mut weights) = (Vec::new(), Vec::new());
    for b in 0..batch {
        for h in 0..heads {
            let g = h / (heads / kv_heads);
            for i in 0..queries {
                let mut line = vec![f64::NEG_INFINITY; keys];
                for (j, score) in line.iter_mut().enumerate() {
                    let at = [b, h, i, j];
                    if !parts.iter().all(|part| part.shows(sizes, at)) {
                        continue;
                    }
                    let query = &q[((b * heads + h) * queries + i) * dim..][..dim];
                    let key = &k[((b * kv_heads + g) * keys + j) * dim..][..dim];
                    let product: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
                    *score = product * scale;
                    *score += parts.iter().map(|part| part.bias(sizes, at)).sum::<f64>();
                }
                softmax_line(&mut line);
                for c in 0..value {
                    let of = |j: usize| v[((b * kv_heads + g) * keys + j) * value + c];
                    let seen = line.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
                    out.push(seen.map(|(j, weight)| weight * of(j)).sum());
                }
                weights.extend(line);
            }
        }
    }
    (out, weights)
}

/// Scores to weights; −∞ weighs 0, also where all are.
pub(crate) fn softmax_line(line: &mut [f64]) {
    let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |x: f64| if x == f64::NEG_INFINITY { 0.0 } else { (x - max).exp() };
    let sum: f64 = line.iter().map(|&x| weight(x)).sum();
    for x in line.iter_mut() {
        *x = if *x == f64::NEG_INFINITY { 0.0 } else { weight(*x) / sum };
    }
}

/// Softmax of `x` over (outer, n, inner) along n.
pub(crate) fn softmax(x: &[f64], [outer, n, inner]: [usize; 3]) -> Vec<f64> {
    let mut out = x.to_vec();
    for o in 0..outer {
        for i in 0..inner {
            let at = |j: usize| (o * n + j) * inner + i;
            let mut line: Vec<f64> = (0..n).map(|j| x[at(j)]).collect();
            softmax_line(&mut line);
            line.iter().enumerate().for_each(|(j, weight)| out[at(j)] = *weight);
        }
    }
    out
}

/// (x − mean) / √(variance + ε) · weight + bias over rows of n, the variance biased.
pub(crate) fn layer_norm(x: &[f64], weight: &[f64], bias: &[f64], epsilon: f64) -> Vec<f64> {
    let n = weight.len();
    let mut out = Vec::new();
    for row in x.chunks(n.max(1)) {
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        let root = (variance + epsilon).sqrt();
        let norm = |(i, x): (usize, &f64)| (x - mean) / root * weight[i] + bias[i];
        out.extend(row.iter().enumerate().map(norm));
    }
    out
}

/// `batch` products of a over (m, k) and b over (k, n).
pub(crate) fn matmul(a: &[f64], b: &[f64], [batch, m, k, n]: [usize; 4]) -> Vec<f64> {
    let mut out = Vec::new();
    for z in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let term = |c: usize| a[(z * m + i) * k + c] * b[(z * k + c) * n + j];
                out.push((0..k).map(term).sum());
            }
        }
    }
    out
}

/// x · Wᵀ + b over rows of `input`, W over (out, in) as files have it.
pub(crate) fn linear(x: &[f64], weight: &[f64], bias: Option<&[f64]>, input: usize) -> Vec<f64> {
    let outputs = weight.len() / input;
    let mut y = Vec::new();
    for row in x.chunks(input) {
        for o in 0..outputs {
            let products = row.iter().zip(&weight[o * input..]).map(|(x, w)| x * w);
            y.push(products.sum::<f64>() + bias.map_or(0.0, |bias| bias[o]));
        }
    }
    y
}

/// From (…, a, b, c) to (…, b, a, c): what heads are split and merged by.
pub(crate) fn exchanged<T: Copy>(x: &[T], [a, b, c]: [usize; 3]) -> Vec<T> {
    let at = |i: usize| {
        let (outer, j, k, l) = (i / (b * a * c), i / (a * c) % b, i / c % a, i % c);
        x[((outer * a + k) * b + j) * c + l]
    };
    (0..x.len()).map(at).collect()
}

/// A rotation of the first `width` features of each head: in pairs of neighbours or by halves, the pair p at
/// position m by m · base^(−2p/width).
#[derive(Clone, Copy)]
pub(crate) struct Rotation {
    pub(crate) width: usize,
    pub(crate) adjacent: bool,
    pub(crate) base: f64,
}

impl Rotation {
    /// Of x over (…, heads, length, dim), by the position of each sample's places.
    pub(crate) fn of(
        self,
        x: &[f64],
        [heads, length, dim]: [usize; 3],
        position: impl Fn(usize, usize) -> usize,
    ) -> Vec<f64> {
        let Rotation { width, adjacent, base } = self;
        let turned = |i: usize| {
            let (sample, place, feature) = (i / (heads * length * dim), i / dim % length, i % dim);
            if feature >= width {
                return x[i];
            }
            let (pair, second, partner) = if adjacent {
                (feature / 2, feature % 2 == 1, feature ^ 1)
            } else {
                (feature % (width / 2), feature >= width / 2, (feature + width / 2) % width)
            };
            let turn = base.powf(-2.0 * pair as f64 / width as f64);
            let angle = position(sample, place) as f64 * turn;
            let other = x[i - feature + partner] * if second { 1.0 } else { -1.0 };
            x[i] * angle.cos() + other * angle.sin()
        };
        (0..x.len()).map(turned).collect()
    }
}

/// `of` each line of `x` over (outer, n, inner) along n.
pub(crate) fn reduce(
    x: &[f64],
    [outer, n, inner]: [usize; 3],
    of: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    let mut out = Vec::new();
    for o in 0..outer {
        for i in 0..inner {
            let line: Vec<f64> = (0..n).map(|j| x[(o * n + j) * inner + i]).collect();
            out.push(of(&line));
        }
    }
    out
}

pub(crate) fn mean(line: &[f64]) -> f64 {
    line.iter().sum::<f64>() / line.len() as f64
}

/// Divided by n, not n − 1.
pub(crate) fn variance(line: &[f64]) -> f64 {
    let middle = mean(line);
    line.iter().map(|x| (x - middle) * (x - middle)).sum::<f64>() / line.len() as f64
}

/// x · Φ(x), with Φ by Simpson's rule over the bell curve.
pub(crate) fn gelu(x: f64) -> f64 {
    let bell = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (steps, end) = (2000, x.clamp(-12.0, 12.0));
    let width = end / f64::from(steps);
    let area: f64 = (0..steps)
        .map(|i| {
            let t = f64::from(i) * width;
            (bell(t) + 4.0 * bell(t + width / 2.0) + bell(t + width)) * width / 6.0
        })
        .sum();
    x * (0.5 + area)
}

/// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
pub(crate) fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    x / 2.0 * (1.0 + inner.tanh())
}
