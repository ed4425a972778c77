//! Scaled dot-product attention: softmax(q · kᵀ · scale + bias, over the visible keys) · v.

mod mask;

pub(crate) use mask::{Band, Mask};

use super::layout::View;
use super::softmax::softmax_line;
use crate::element::Float;
use num_traits::{Float as _, Zero};

/// The attention of `q` [B, H, Q, D] to `k` [B, G, K, D] and `v` [B, G, K, Dv], in any strides. G
/// divides H, and query head h reads head h / (H/G). `out` is [B, Q, H, Dv] in row-major order.
pub(crate) fn attention<E: Float>(
    q: View<E>,
    k: View<E>,
    v: View<E>,
    scale: f64,
    mask: &Mask<E>,
    out: &mut [E],
) {
    simple(q, k, v, scale, mask, out, None);
}

/// As [`attention`]; also writes the weights, [B, H, Q, K] in row-major order.
pub(crate) fn attention_with_weights<E: Float>(
    q: View<E>,
    k: View<E>,
    v: View<E>,
    scale: f64,
    mask: &Mask<E>,
    (out, weights): (&mut [E], &mut [E]),
) {
    simple(q, k, v, scale, mask, out, Some(weights));
}

fn simple<E: Float>(
    q: View<E>,
    k: View<E>,
    v: View<E>,
    scale: f64,
    mask: &Mask<E>,
    out: &mut [E],
    mut weights: Option<&mut [E]>,
) {
    let [batch, heads, queries, d] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
    let [groups, keys] = [1, 2].map(|axis| k.layout.dims[axis]);
    let dv = v.layout.dims[3];
    let scale = E::Wide::from_f64(scale);
    for b in 0..batch {
        for h in 0..heads {
            let g = h / (heads / groups);
            for i in 0..queries {
                let mut line: Vec<E::Wide> = (0..keys)
                    .map(|j| {
                        let mut visible = j < mask.limit(i, keys);
                        visible &= mask.keep.iter().all(|keep| at(keep, [b, h, i, j]));
                        let mut score = E::Wide::zero();
                        for c in 0..d {
                            score += at(&q, [b, h, i, c]).wide() * at(&k, [b, g, j, c]).wide();
                        }
                        score *= scale;
                        for bias in &mask.bias {
                            let bias = at(bias, [b, h, i, j]).wide();
                            visible &= bias != E::Wide::neg_infinity();
                            score += bias;
                        }
                        if visible { score } else { E::Wide::neg_infinity() }
                    })
                    .collect();
                softmax_line(&mut line);
                let out = &mut out[((b * queries + i) * heads + h) * dv..][..dv];
                for (c, out) in out.iter_mut().enumerate() {
                    let mut sum = E::Wide::zero();
                    for (j, &weight) in line.iter().enumerate() {
                        if weight != E::Wide::zero() {
                            sum += weight * at(&v, [b, g, j, c]).wide();
                        }
                    }
                    *out = E::narrow(sum);
                }
                if let Some(weights) = &mut weights {
                    let to = &mut weights[((b * heads + h) * queries + i) * keys..][..keys];
                    to.iter_mut().zip(&line).for_each(|(to, &x)| *to = E::narrow(x));
                }
            }
        }
    }
}

fn at<T: Copy>(view: &View<T>, index: [usize; 4]) -> T {
    let strides = view.layout.strides;
    view.data
        [view.layout.offset + index.iter().zip(strides.iter()).map(|(i, s)| i * s).sum::<usize>()]
}
