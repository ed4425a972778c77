//! Self attention from activations to activations: projections to queries, keys and values in one
//! product, attention, and the projection of the merged heads.
//!
//! Samples are taken a round at a time, as many as keep what lies between the three steps within the
//! caches: it is written and read there, in one buffer for all rounds, instead of going to memory and
//! back. A round is a number of samples that depends on sizes alone, and what a sample gives does not
//! depend on its neighbours.

use super::attention::{Mask, Settings, attention, side_by_side};
use super::gemm::{Epilogue, gemm_packed_to};
use super::layout::{Layout, View};
use super::linear::Projection;
use super::output::{place, written};
use super::scratch::{Spare, padded, split};
use crate::element::Float;

/// The most bytes between the steps of a round, unless a single sample has more.
const ROUND: usize = 2 << 20;

/// `x` over (samples, positions, width). `qkv` gives queries, keys and values side by side, each of
/// `heads` heads side by side, which `heads` divides; `out` maps the heads side by side to the result,
/// over (samples, positions, its columns) in row-major order.
pub(crate) fn self_attention<E: Float>(
    x: View<E>,
    heads: usize,
    [qkv, out]: [&Projection<E>; 2],
    settings: &Settings<E>,
    mask: &Mask<E>,
) -> Vec<E> {
    let between = 4usize.saturating_mul(x.layout.dims[1]).saturating_mul(out.weight.dims().0);
    let round = (ROUND / size_of::<E>()).checked_div(between).unwrap_or(1).max(1);
    in_rounds(round, x, heads, [qkv, out], settings, mask)
}

/// `round` samples at a time, at least one.
fn in_rounds<E: Float>(
    round: usize,
    x: View<E>,
    heads: usize,
    [qkv, out]: [&Projection<E>; 2],
    settings: &Settings<E>,
    mask: &Mask<E>,
) -> Vec<E> {
    let [samples, len] = [0, 1].map(|axis| x.layout.dims[axis]);
    let (width, columns) = (out.weight.dims().0, out.weight.dims().1);
    let count = Layout::packed(&[samples, len, columns]).count();
    let round = round.min(samples);
    // SAFETY: the rounds write all samples, and a product all elements of its layout.
    unsafe {
        written(count, |result| {
            let lens = [3, 1].map(|parts| round * len * parts * width);
            let mut spare = Spare::<E>::take(lens.map(padded::<E>).iter().sum());
            for (i, result) in result.chunks_mut((round * len * columns).max(1)).enumerate() {
                let first = i * round;
                let n = round.min(samples - first);
                let mut rest = &mut spare[..];
                let fused = split(&mut rest, n * len * 3 * width);
                let merged = split(&mut rest, n * len * width);
                let sliced = |layout: &Layout| layout.sliced(0, first, n);
                let x = View { layout: sliced(&x.layout), ..x };
                gemm_packed_to(x, &qkv.weight, Epilogue::bias(qkv.bias.as_deref()), place(fused));
                let parts = side_by_side([n, len, heads, width / heads.max(1)])
                    .map(|layout| View { data: &*fused, layout });
                attention(parts, settings, &mask.sliced(first, n), merged);
                let merged = View { data: &*merged, layout: Layout::packed(&[n, len, width]) };
                gemm_packed_to(merged, &out.weight, Epilogue::bias(out.bias.as_deref()), result);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::gemm::pack_b;
    use crate::kernel::layout::Dims;
    use crate::kernel::testing::{Rng, bits, in_pools};

    fn projection(rng: &mut Rng, width: usize, columns: usize) -> Projection<f32> {
        let weight = pack_b(rng.block::<f32>(&[width, columns]).view());
        Projection { weight, bias: Some(rng.values(columns)) }
    }

    #[test]
    fn rounds_and_threads_change_no_bit() {
        let mut rng = Rng::new(40);
        for (samples, len, heads, d) in [(5, 7, 3, 4), (3, 3, 3, 3), (1, 9, 1, 6), (4, 70, 2, 8)] {
            let width = heads * d;
            let x = rng.block::<f32>(&[samples, len, width]);
            let maps = [projection(&mut rng, width, 3 * width), projection(&mut rng, width, width)];
            let maps = maps.each_ref();
            let keep: Vec<bool> = (0..samples * len).map(|_| rng.below(3) > 0).collect();
            let full = [samples, heads, len, len];
            let layout = Layout::packed(&[samples, len]).broadcast(&full, &[0, 3]);
            let mask = Mask { keep: vec![View { data: &keep, layout }], ..Mask::NONE };
            let scattered = x.scattered(1);
            let settings = Settings::scaled(0.5);
            let run = |round, view| bits(&in_rounds(round, view, heads, maps, &settings, &mask));
            let all = in_pools(|| run(samples, x.view()));
            for round in [1, 2, samples + 1] {
                assert_eq!(run(round, x.view()), all, "{round} of {samples}");
                assert_eq!(run(round, scattered.view()), all);
            }
        }
    }

    #[test]
    fn empty_axes_give_empty_results_or_the_bias() {
        let mut rng = Rng::new(41);
        let maps = [projection(&mut rng, 6, 18), projection(&mut rng, 6, 6)];
        for dims in [[0, 4, 6], [3, 0, 6]] {
            let view = View { data: &[], layout: Layout::packed(&Dims::new(&dims)) };
            let settings = Settings::scaled(1.0);
            let result = self_attention(view, 2, maps.each_ref(), &settings, &Mask::NONE);
            assert!(result.is_empty());
        }
    }
}
