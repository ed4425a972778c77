//! Layer norm: each row loses its mean and is divided by √(variance + ε).
//!
//! A row is the last `size` elements in row-major order, however many axes they span. Mean and
//! variance are taken in two passes with pairwise sums, so rows far from 0 keep their digits.

use super::elementwise::pack;
use super::layout::View;
use super::parallel::for_each_chunk;
use super::reduce::moments;
use crate::element::Float;
use num_traits::{Float as _, One, Zero};
use std::borrow::Cow;

/// Elements in one piece of work, unless a single row is longer.
const GROUP: usize = 1 << 13;

/// (x − mean) / √(variance + eps) · weight + bias over rows of `size` elements, with the biased
/// variance. `weight` and `bias` have `size` elements; 1 and 0 where absent.
pub(crate) fn layer_norm<E: Float>(
    x: View<E>,
    size: usize,
    eps: f64,
    weight: Option<&[E]>,
    bias: Option<&[E]>,
) -> Vec<E> {
    let packed = match x.as_slice() {
        Some(slice) => Cow::Borrowed(slice),
        None => Cow::Owned(pack(x)),
    };
    let mut out = vec![E::default(); packed.len()];
    if size == 0 {
        return out;
    }
    let eps = E::Wide::from_f64(eps);
    let rows = (GROUP / size).max(1);
    let work = packed.len() * 8;
    for_each_chunk(&mut out, rows * size, work, |i, out| {
        let x = &packed[i * rows * size..][..out.len()];
        let mut line = vec![E::Wide::zero(); size];
        for (x, out) in x.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
            line.iter_mut().zip(x).for_each(|(to, x)| *to = x.wide());
            let (mean, variance) = moments(&line);
            let scale = (variance + eps).sqrt().recip();
            finish(&line, (mean, scale), (weight, bias), out);
        }
    });
    out
}

fn finish<E: Float>(
    line: &[E::Wide],
    (mean, scale): (E::Wide, E::Wide),
    (weight, bias): (Option<&[E]>, Option<&[E]>),
    out: &mut [E],
) {
    let (one, zero) = (E::narrow(E::Wide::one()), E::narrow(E::Wide::zero()));
    let n = out.len();
    let at = |i: usize| (line[i] - mean) * scale;
    match (weight, bias) {
        (None, None) => (0..n).for_each(|i| out[i] = E::narrow(at(i))),
        (Some(weight), Some(bias)) => {
            let (weight, bias) = (&weight[..n], &bias[..n]);
            (0..n).for_each(|i| out[i] = E::narrow(at(i) * weight[i].wide() + bias[i].wide()));
        }
        _ => (0..n).for_each(|i| {
            let weight = weight.map_or(one, |weight| weight[i]).wide();
            let bias = bias.map_or(zero, |bias| bias[i]).wide();
            out[i] = E::narrow(at(i) * weight + bias);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::Layout;
    use crate::kernel::testing::{Rng, bits, in_pools};

    fn norm(x: &[f32], size: usize) -> Vec<f32> {
        let view = View { data: x, layout: Layout::packed(&[x.len() / size, size]) };
        layer_norm(view, size, 1e-5, None, None)
    }

    #[test]
    fn the_variance_is_biased_and_epsilon_is_inside_the_root() {
        for (actual, expected) in norm(&[2., 0., 0., 2.], 4).iter().zip([1f32, -1., -1., 1.]) {
            assert!((actual - expected * 0.999_995).abs() < 1e-7);
        }
        assert_eq!(norm(&[0.1; 9], 9), [0.0; 9]);
    }

    #[test]
    fn rows_far_from_zero_keep_their_digits() {
        let mut rng = Rng::new(7);
        let x: Vec<f32> = (0..512).map(|_| 1000.0 + rng.unit() as f32).collect();
        let n = x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        for (&x, y) in x.iter().zip(norm(&x, 512)) {
            let expected = (f64::from(x) - mean) / (variance + 1e-5).sqrt();
            assert!((f64::from(y) - expected).abs() < 1e-4, "{y} {expected}");
        }
    }

    #[test]
    fn weight_and_bias_apply_to_any_strides_and_threads() {
        let mut rng = Rng::new(8);
        let block = rng.block::<f64>(&[50, 3, 40]);
        let (weight, bias) = (rng.values::<f64>(120), rng.values::<f64>(120));
        let plain = layer_norm(block.view(), 120, 1e-5, None, None);
        for (w, b) in
            [(Some(&weight[..]), Some(&bias[..])), (None, Some(&bias)), (Some(&weight), None)]
        {
            let result = in_pools(|| bits(&layer_norm(block.view(), 120, 1e-5, w, b)));
            for kind in 0..3 {
                let other = block.scattered(kind);
                assert_eq!(bits(&layer_norm(other.view(), 120, 1e-5, w, b)), result);
            }
            for (i, &actual) in result.iter().enumerate() {
                let expected =
                    plain[i] * w.map_or(1.0, |w| w[i % 120]) + b.map_or(0.0, |b| b[i % 120]);
                assert_eq!(f64::from_bits(actual), expected);
            }
        }
    }
}
