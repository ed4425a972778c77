//! Results are those of plain float64 loops, up to the rounding of the element type.

use proptest::prelude::*;
use shapeproof::{Batch, Float, HeadDim, Heads, Key, LayerNorm, Model, Query, Tensor, dyn_size};

use super::draws;
use crate::fixtures::assert_close;
use crate::masks::{Sizes, attend, narrowed, widened};
use crate::oracle::{self, tolerance};
use crate::random::Random;

fn check<E: Float>(name: &str, got: &[E], want: &[f64]) {
    let (rtol, atol) = tolerance::<E>();
    assert_close(&format!("{name}, {}", E::NAME), &widened(got), want, rtol, atol);
}

proptest! {
    #![proptest_config(draws(64))]

    #[test]
    fn attention_with_any_masks(
        [batch, queries, keys, dim, value] in [0usize..4, 0..7, 0..9, 1..6, 0..6],
        (heads, kv_heads) in prop::sample::select(vec![(1usize, 1usize), (2, 2), (3, 3), (2, 1), (4, 2), (6, 3), (6, 2)]),
        scale in prop::option::of(-2.0..2.0f64),
        seed: u64,
    ) {
        let sizes = Sizes { batch, heads, kv_heads, queries, keys, dim, value };
        let mut random = Random::new(seed);
        let (inputs, parts) = (random.inputs(sizes), random.parts(sizes));
        let inputs = inputs.each_ref().map(Vec::as_slice);
        let want = oracle::attention(sizes, inputs, scale, &parts);
        fn both<E: Float>(got: (Vec<f64>, Vec<f64>), want: &(Vec<f64>, Vec<f64>)) {
            let (rtol, atol) = tolerance::<E>();
            // Scores of size 50 have an absolute error of as many roundings.
            assert_close(&format!("output, {}", E::NAME), &got.0, &want.0, rtol, 2.0 * atol);
            assert_close(&format!("weights, {}", E::NAME), &got.1, &want.1, rtol, atol);
        }
        both::<f32>(attend::<f32>(sizes, inputs, scale, &parts), &want);
        both::<f64>(attend::<f64>(sizes, inputs, scale, &parts), &want);
    }

    #[test]
    fn softmax_and_its_sums([outer, n, inner] in [0usize..4, 0..40, 0..4], spread in 0.0..30.0f64, seed: u64) {
        fn run<E: Float>([outer, n, inner]: [usize; 3], x: &[f64]) {
            let x = widened(&narrowed::<E>(x));
            dyn_size!(b = outer, s = n, l = inner);
            let shape = (Batch(b), Key(s), Query(l));
            let weights = Tensor::try_from_vec(shape, narrowed::<E>(&x)).unwrap().softmax(Key);
            check("softmax", &weights.to_vec(), &oracle::softmax(&x, [outer, n, inner]));
            let all_hidden = |line: &[f64]| line.iter().all(|x| *x == f64::NEG_INFINITY);
            let sum = |line: &[f64]| if all_hidden(line) { 0.0 } else { 1.0 };
            check("sums", &weights.sum(Key).to_vec(), &oracle::reduce(&x, [outer, n, inner], sum));
        }
        let mut random = Random::new(seed);
        let mut score = || if random.below(6) == 0 { f64::NEG_INFINITY } else { random.value() * spread };
        let x: Vec<f64> = (0..outer * n * inner).map(|_| score()).collect();
        run::<f32>([outer, n, inner], &x);
        run::<f64>([outer, n, inner], &x);
    }

    #[test]
    fn layer_norms([rows, width] in [0usize..5, 1..70], epsilon in 1e-3..1.0f64, seed: u64) {
        fn run<E: Float>([rows, width]: [usize; 2], epsilon: f64, seed: u64) {
            let mut random = Random::new(seed);
            let x = random.values(rows * width);
            let (weight, bias) = (random.values(width), random.values(width));
            dyn_size!(b = rows, m = width);
            let mut norm = LayerNorm::<Model<_>, E>::new_in((Model(m),), epsilon);
            norm.weight.set(Tensor::try_from_vec((Model(m),), narrowed(&weight)).unwrap());
            norm.bias.set(Tensor::try_from_vec((Model(m),), narrowed(&bias)).unwrap());
            let x_typed = Tensor::try_from_vec((Batch(b), Model(m)), narrowed(&x)).unwrap();
            let y = norm.forward(&x_typed, &mut shapeproof::Infer);
            check("layer norm", &y.to_vec(), &oracle::layer_norm(&x, &weight, &bias, epsilon));
        }
        run::<f32>([rows, width], epsilon, seed);
        run::<f64>([rows, width], epsilon, seed);
    }

    #[test]
    fn products([z, m, k, n] in [0usize..3, 0..9, 0..20, 0..9], seed: u64) {
        fn run<E: Float>(sizes: [usize; 4], seed: u64) {
            let [z, m, k, n] = sizes;
            let mut random = Random::new(seed);
            let (a, b) = (random.values(z * m * k), random.values(z * k * n));
            let want = oracle::matmul(&a, &b, sizes);
            dyn_size!(z = z, m = m, k = k, n = n);
            let a = Tensor::try_from_vec((Batch(z), Query(m), HeadDim(k)), narrowed::<E>(&a)).unwrap();
            let b = Tensor::try_from_vec((Batch(z), HeadDim(k), Key(n)), narrowed(&b)).unwrap();
            check("matmul", &a.matmul(&b).to_vec(), &want);
            check("dot", &a.dot(&b, HeadDim).to_vec(), &want);
            let turned = b.transpose(HeadDim, Key).packed();
            check("dot with the other order", &a.dot(&turned, HeadDim).to_vec(), &want);
        }
        run::<f32>([z, m, k, n], seed);
        run::<f64>([z, m, k, n], seed);
    }

    #[test]
    fn reductions([outer, n, inner] in [0usize..4, 1..600, 0..4], seed: u64) {
        fn run<E: Float>(sizes: [usize; 3], seed: u64) {
            let [outer, n, inner] = sizes;
            let x = Random::new(seed).values(outer * n * inner);
            dyn_size!(b = outer, s = n, h = inner);
            let shape = (Batch(b), Key(s), Heads(h));
            let t = Tensor::try_from_vec(shape, narrowed::<E>(&x)).unwrap();
            let of = |f: fn(&[f64]) -> f64| oracle::reduce(&x, sizes, f);
            check("mean", &t.mean(Key).to_vec(), &of(oracle::mean));
            check("variance", &t.variance(Key).to_vec(), &of(oracle::variance));
            check("max", &t.max(Key).to_vec(), &of(|x| x.iter().copied().fold(f64::MIN, f64::max)));
            check("min", &t.min(Key).to_vec(), &of(|x| x.iter().copied().fold(f64::MAX, f64::min)));
            // The sum of n terms of size 2 is allowed what its mean is.
            let (rtol, atol) = tolerance::<E>();
            let sum = widened(&t.sum(Key).to_vec());
            let size = 2.0 * f64::from(u32::try_from(n).unwrap());
            assert_close("sum", &sum, &of(|x| x.iter().sum()), rtol, atol * size);
        }
        run::<f32>([outer, n, inner], seed);
        run::<f64>([outer, n, inner], seed);
    }

    #[test]
    fn activations(x in prop::collection::vec(-20.0..20.0f64, 1..20)) {
        fn run<E: Float>(x: &[f64]) {
            let x = widened(&narrowed::<E>(x));
            dyn_size!(n = x.len());
            let t = Tensor::try_from_vec((Key(n),), narrowed::<E>(&x)).unwrap();
            let of = |f: fn(f64) -> f64| x.iter().map(|&x| f(x)).collect::<Vec<_>>();
            check("gelu", &t.gelu().to_vec(), &of(oracle::gelu));
            check("gelu_tanh", &t.gelu_tanh().to_vec(), &of(oracle::gelu_tanh));
            check("silu", &t.silu().to_vec(), &of(|x| x / (1.0 + (-x).exp())));
            check("sigmoid", &t.sigmoid().to_vec(), &of(|x| 1.0 / (1.0 + (-x).exp())));
            check("relu", &t.relu().to_vec(), &of(|x| if x > 0.0 { x } else { 0.0 }));
            check("tanh", &t.tanh().to_vec(), &of(f64::tanh));
            check("exp", &t.exp().to_vec(), &of(f64::exp));
        }
        run::<f32>(&x);
        run::<f64>(&x);
    }
}
