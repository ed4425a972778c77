//! What kernels make of halves is what they make of the same numbers in f32, rounded once: bit for bit,
//! since all between reading and writing is the same, unless tiles multiply.

use super::attention::{Forward, Given, Mask, Out, Settings, Sums};
use super::attention::{attention_backward, attention_to};
use super::cross_entropy::{Smoothing, cross_entropy_backward, losses};
use super::gated::{gate_backward, gate_in_place};
use super::gemm::Epilogue;
use super::gemm::{gemm, gemm_packed, pack_b};
use super::layout::{Layout, View};
use super::linear_attention::{FeatureMap, linear_attention};
use super::math::Silu;
use super::norm::{Norm, normalized};
use super::norm_backward::norm_backward;
use super::pointwise;
use super::reduce::{mean, sum, variance};
use super::rotary::{Pairs, rotate};
use super::simd::Isa;
use super::softmax::{Softmax, softmax, softmax_backward};
use super::testing::{Block, Rng, bits, in_pools};
use super::tiles;
use super::wide::{map_wide, map_wide_in_place, narrowed, zip_wide, zip_wide_in_place};
use crate::element::{Float, bf16, f16};

/// What a kernel makes of blocks, as lists.
trait Job {
    fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>>;
}

fn check_in<E: Float<Wide = f32>>(job: &(impl Job + Sync), shapes: &[&[usize]]) {
    let mut rng = Rng::new(90);
    let blocks: Vec<Block<E>> = shapes.iter().map(|dims| rng.block(dims)).collect();
    let wide: Vec<Block<f32>> = blocks
        .iter()
        .map(|block| Block {
            data: block.data.iter().map(|x| x.wide()).collect(),
            layout: block.layout,
        })
        .collect();
    let all = |lists: Vec<Vec<E>>| lists.iter().map(|x| bits(x)).collect::<Vec<_>>();
    let found = in_pools(|| all(job.run(&blocks)));
    let expected = job.run(&wide).into_iter();
    let expected = expected.map(|list| list.into_iter().map(E::narrow).collect()).collect();
    let expected = all(expected);
    if tiles::multiply::<E>(Isa::best()) {
        // Tiles add in another order and round the weights of attention.
        for (found, expected) in found.iter().zip(&expected) {
            let [found, expected] =
                [found, expected].map(|list| list.iter().map(|&x| f64::from_bits(x)));
            let largest = expected.clone().map(f64::abs).fold(0.0, f64::max);
            for (a, b) in found.zip(expected) {
                assert!((a - b).abs() <= largest / 64.0, "{}: {a} {b}", E::NAME);
            }
        }
    } else {
        let difference = first_difference(&found, &expected);
        assert!(found == expected, "{}: {difference:?}", E::NAME);
    }
    for kind in 0..3 {
        let others: Vec<_> = blocks.iter().map(|block| block.scattered(kind)).collect();
        let other = all(job.run(&others));
        let difference = first_difference(&other, &found);
        assert!(other == found, "{} strides {kind}: {difference:?}", E::NAME);
    }
}

/// The list, the place in it and both numbers.
fn first_difference(a: &[Vec<u64>], b: &[Vec<u64>]) -> Option<(usize, usize, [f64; 2])> {
    a.iter().zip(b).enumerate().find_map(|(list, (a, b))| {
        let at = a.iter().zip(b).position(|(a, b)| a != b)?;
        Some((list, at, [a[at], b[at]].map(f64::from_bits)))
    })
}

fn check(job: impl Job + Sync, shapes: &[&[usize]]) {
    check_in::<f16>(&job, shapes);
    check_in::<bf16>(&job, shapes);
}

struct Lines;
impl Job for Lines {
    fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>> {
        let [x, g, weight, bias] = blocks else { unreachable!() };
        let (weight, bias) = (weight.pack(), bias.pack());
        let at = x.layout.rank() - 1;
        let size = x.layout.dims[at];
        let (weight, bias) = (Some(&weight[..]), Some(&bias[..]));
        let mut all = Vec::new();
        for centered in [true, false] {
            let norm = Norm { size, centered, epsilon: 1e-5, weight, bias };
            all.push(normalized(x.view(), norm));
            all.extend(norm_backward(x.view(), g.view(), norm));
        }
        for kind in [Softmax::Weights, Softmax::Logarithms] {
            all.push(softmax(kind, x.view(), at, None));
            all.push(softmax_backward(kind, x.view(), g.view(), at));
        }
        let keep: Vec<bool> = (0..x.layout.count()).map(|i| i % 3 != 1).collect();
        let keep = View { data: &keep[..], layout: Layout::packed(&x.layout.dims) };
        all.push(softmax(Softmax::Weights, x.view(), at, Some(keep)));
        all.extend([sum(x.view(), at), mean(x.view(), at), variance(x.view(), at)]);
        all.push(map_wide(x.view(), |x| x / E::Wide::from_f64(3.0)));
        all.push(zip_wide(x.view(), g.view(), |x, g| x * g));
        let [mut difference, mut square] = [x.pack(), x.pack()];
        zip_wide_in_place(&mut difference, g.view(), |x, g| x - g);
        map_wide_in_place(&mut square, |x| x * x);
        all.extend([difference, square]);
        all.push(pointwise::map(x.view(), Silu));
        all.push(pointwise::backward(x.view(), g.view(), Silu));
        let rows: usize = x.layout.dims[..at].iter().product();
        let targets: Vec<_> = (0..rows).map(|row| (row % 4 > 0).then_some(row % size)).collect();
        let smoothing = Smoothing { share: 0.1, weights: weight };
        let [loss, logarithms] = losses(x.view(), &targets, smoothing);
        all.push(narrowed(loss));
        let g = E::Wide::from_f64(0.25);
        all.push(cross_entropy_backward(x.view(), &targets, &logarithms, g, smoothing));
        let (act, slope): (fn(&mut [E::Wide]), fn(&[E::Wide], &mut [E::Wide])) =
            (|x| pointwise::apply(x, Silu), |x, g| pointwise::apply_backward(x, g, Silu));
        let mut rows = x.pack();
        let half = size / 2;
        rows.truncate(rows.len() / size * half * 2);
        all.push(gate_backward(&rows, &x.pack()[..rows.len() / 2], half, act, slope));
        gate_in_place(&mut rows, half, act);
        for row in rows.chunks_exact_mut((2 * half).max(1)) {
            row[half..].fill(E::default());
        }
        all.push(rows);
        all
    }
}

#[test]
fn lines_of_halves_are_rounded_once() {
    for size in [1, 2, 7, 16, 33, 70, 1000] {
        check(Lines, &[&[5, size], &[5, size], &[size], &[size]]);
    }
}

struct Products;
impl Job for Products {
    fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>> {
        let [a, b, bias] = blocks else { unreachable!() };
        let bias = bias.pack();
        let packed = pack_b(b.view());
        vec![
            gemm(a.view(), b.view(), Some(&bias)),
            gemm_packed(a.view(), &packed, Epilogue::bias(Some(&bias))),
        ]
    }
}

#[test]
fn products_of_halves_are_rounded_once() {
    for [m, k, n] in [[1, 1, 1], [3, 5, 7], [30, 70, 33], [13, 1030, 64], [64, 64, 64]] {
        check(Products, &[&[m, k], &[k, n], &[n]]);
    }
}

struct Attentions;
impl Job for Attentions {
    fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>> {
        let [q, k, v, up] = blocks else { unreachable!() };
        let [batch, heads, queries, d] = [0, 1, 2, 3].map(|i| q.layout.dims[i]);
        let dv = v.layout.dims[3];
        let rows = batch * heads * queries;
        let views = [q.view(), k.view(), v.view()];
        let settings = Settings::scaled(0.4);
        let mut all = Vec::new();
        let mut out = vec![E::default(); rows * dv];
        let mut weights = vec![E::default(); rows * k.layout.dims[2]];
        attention_to(
            views,
            &settings,
            &Mask::NONE,
            Out { out: &mut out, weights: Some(&mut weights), sums: Sums::Nothing },
        );
        all.push(weights);
        for sums in [true, false] {
            // With sums the way of many queries, without that of few where they are few.
            let mut logs = vec![E::default(); rows];
            let kept = if sums { Sums::Log(&mut logs) } else { Sums::Nothing };
            let to = Out { out: &mut out, weights: None, sums: kept };
            attention_to(views, &settings, &Mask::NONE, to);
            all.extend([out.clone(), logs]);
        }
        let map = FeatureMap::EluPlusOne;
        linear_attention(views, map, &Mask::NONE, &mut out);
        all.push(out);
        // The gradients, of an output that both kinds hold.
        let out = vec![E::from_f64(0.5); rows * dv];
        let sums = [2.5, 3.0].map(|sum| vec![E::Wide::from_f64(sum); rows]);
        let forward = Forward {
            views,
            settings: &settings,
            mask: &Mask::NONE,
            sums: Some(sums.each_ref().map(|part| &part[..])),
            together: false,
        };
        let out = View { data: &out[..], layout: Layout::packed(&[batch, heads, queries, dv]) };
        let gradients = attention_backward(&forward, Given::Out(up.view(), out), true);
        all.extend([gradients.q, gradients.k, gradients.v, gradients.scores]);
        let (turns, pairs) = ([0.625, 0.75].map(E::from_f64), d / 2);
        let turns = turns.map(|turn| vec![turn; queries * pairs]);
        let full = [batch, heads, queries, pairs];
        let at = Layout::packed(&[queries, pairs]).broadcast(&full, &[2, 3]);
        for kind in [Pairs::Adjacent, Pairs::SplitHalf] {
            all.push(rotate(q.view(), turns.each_ref().map(|x| &x[..]), &at, kind));
        }
        all
    }
}

#[test]
fn attention_of_halves_is_rounded_once() {
    for [b, h, g, q, k, d, dv] in [
        [1, 1, 1, 1, 1, 1, 1],
        [2, 3, 3, 5, 7, 8, 3],
        [1, 2, 2, 1, 600, 16, 32],
        [2, 1, 1, 70, 100, 33, 40],
        [1, 2, 2, 64, 64, 64, 64],
        [2, 6, 2, 5, 7, 8, 3],
    ] {
        check(Attentions, &[&[b, h, q, d], &[b, g, k, d], &[b, g, k, dv], &[b, h, q, dv]]);
    }
}
