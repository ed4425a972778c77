//! Softmax and norms where plain formulas lose their digits.

use shapeproof::{
    Batch, C, EncoderConfig, EncoderLayer, Float, Infer, Key, LayerNorm, Model, Query, Tensor,
    bf16, dyn_size, f16,
};

use crate::fixtures::assert_close;
use crate::masks::{Sizes, attend, narrowed, widened};
use crate::oracle;
use crate::random::Random;

// pytorch/executorch#18407
#[test]
fn softmax_of_large_scores_is_finite() {
    let scores = Tensor::<(Query<C<1>>, Key<C<3>>)>::from([[200.0, 200.0, 0.0]]);
    assert_eq!(scores.softmax(Key).to_vec(), [0.5, 0.5, 0.0]);
    assert_eq!(scores.to::<f64>().softmax(Key).to_vec()[..2], [0.5, 0.5]);
    let logarithms = scores.log_softmax(Key).to_vec();
    assert_close("ln", &logarithms, &[-2f64.ln(), -2f64.ln(), -200.0 - 2f64.ln()], 1e-6, 0.0);
}

// pytorch/executorch#18407, its kind
#[test]
fn softmax_equals_plain_loops_at_any_size_of_the_scores() {
    fn check<E: Float>(largest: f64) {
        for (outer, n, inner) in
            [(2, 5, 3), (3, 3, 3), (1, 4, 1), (4, 1, 2), (1, 1, 1), (2, 300, 2)]
        {
            let mut random = Random::new(5);
            let x: Vec<f64> = random.values(outer * n * inner);
            let x: Vec<f64> =
                widened(&narrowed::<E>(&x.iter().map(|x| x * largest).collect::<Vec<_>>()));
            dyn_size!(batch = outer, keys = n, queries = inner);
            let shape = (Batch(batch), Key(keys), Query(queries));
            let scores = Tensor::try_from_vec(shape, narrowed::<E>(&x)).unwrap();
            let want = oracle::softmax(&x, [outer, n, inner]);
            let (rtol, atol) = oracle::tolerance::<E>();
            let name = format!("{largest:e} {}", E::NAME);
            let got = scores.softmax(Key);
            assert_close(&name, &widened(&got.to_vec()), &want, rtol, atol);
            // Where a weight has not vanished, its logarithm is the logarithm's weight.
            let logarithms = widened(&scores.log_softmax(Key).to_vec());
            for (logarithm, weight) in logarithms.iter().zip(&want).filter(|(_, w)| **w > 1e-30) {
                let off = (logarithm - weight.ln()).abs();
                let allowed = rtol * (1.0 + weight.ln().abs());
                assert!(off <= allowed, "{name}: {logarithm} for {weight:e}");
            }
        }
    }
    for largest in [1e-3, 1.0, 50.0, 1e4, 1e18, 1e37] {
        check::<f32>(largest);
        check::<f64>(largest);
        check::<bf16>(largest);
    }
    for largest in [1e-3, 1.0, 50.0, 1e4, 3e4] {
        check::<f16>(largest);
    }
    check::<f64>(1e300);
}

// pytorch/executorch#18407, in attention
#[test]
fn attention_to_large_scores_is_finite() {
    fn check<E: Float>() {
        let sizes = Sizes::new(2, 2, 3, 5, 4);
        let rounded = |x: Vec<f64>| narrowed(&x.iter().map(|x| x * 64.0).collect::<Vec<_>>());
        let inputs = Random::new(6).inputs(sizes).map(|x| widened::<E>(&rounded(x)));
        let inputs = inputs.each_ref().map(Vec::as_slice);
        let (out, weights) = attend::<E>(sizes, inputs, None, &[]);
        assert!(out.iter().chain(&weights).all(|x| x.is_finite()));
        let want = oracle::attention(sizes, inputs, None, &[]);
        // Scores of some 10⁴ carry 10⁻³ in f32.
        assert_close(&format!("weights, {}", E::NAME), &weights, &want.1, 0.0, 4e-3);
    }
    check::<f32>();
    check::<f16>();
    check::<bf16>();
}

fn norm(x: [f32; 4], epsilon: f64) -> Vec<f32> {
    let x = Tensor::<(Batch<C<1>>, Model<C<4>>)>::from([x]);
    LayerNorm::<Model<C<4>>>::new(epsilon).forward(&x, &mut Infer).to_vec()
}

// harvardnlp/annotated-transformer#122
#[test]
fn the_norm_divides_by_n_and_adds_epsilon_inside_the_root() {
    let signs = [1.0, -1.0, -1.0, 1.0];
    let by = |factor: f64| signs.map(|sign| sign * factor);
    assert_close("x", &norm([2.0, 0.0, 0.0, 2.0], 1e-5), &by(0.999_995), 0.0, 1e-7);
    let small = [0.002, 0.0, 0.0, 0.002];
    assert_close("x/1000, 1e-5", &norm(small, 1e-5), &by(1.0 / 11f64.sqrt()), 0.0, 1e-7);
    assert_close("x/1000, 1e-12", &norm(small, 1e-12), &by(0.999_999_5), 0.0, 2e-7);
    assert_eq!(norm([7.5; 4], 1e-5), [0.0; 4]);
    assert_eq!(norm([0.1; 4], 1e-12), [0.0; 4]);
}

// harvardnlp/annotated-transformer#122: ε is said by whoever makes a norm, nowhere assumed
#[test]
fn every_norm_has_the_epsilon_it_was_given() {
    assert_eq!(LayerNorm::<Model<C<4>>>::new(0.25).epsilon, 0.25);
    let layer = EncoderLayer::<C<4>, C<2>, C<3>>::zeros(EncoderConfig::new(0.125));
    assert_eq!((layer.attention_norm.epsilon, layer.feed_forward_norm.epsilon), (0.125, 0.125));
}

// harvardnlp/annotated-transformer#122, its kind
#[test]
fn layer_norm_equals_plain_loops_for_any_width_offset_and_epsilon() {
    fn check<E: Float>(rows: usize, width: usize, offset: f64, epsilon: f64) {
        let mut random = Random::new(8);
        let x: Vec<f64> = random.values(rows * width).iter().map(|x| x + offset).collect();
        let x = widened(&narrowed::<E>(&x));
        let (weight, bias) = (random.values(width), random.values(width));
        dyn_size!(rows = rows, width = width);
        let mut norm = LayerNorm::<Model<_>, E>::new_in((Model(width),), epsilon);
        norm.weight.set(Tensor::try_from_vec((Model(width),), narrowed(&weight)).unwrap());
        norm.bias.set(Tensor::try_from_vec((Model(width),), narrowed(&bias)).unwrap());
        let shape = (Batch(rows), Model(width));
        let y = norm.forward(&Tensor::try_from_vec(shape, narrowed(&x)).unwrap(), &mut Infer);
        let want = oracle::layer_norm(&x, &weight, &bias, epsilon);
        let (rtol, atol) = oracle::tolerance::<E>();
        let name = format!("{rows:?}×{width:?} + {offset} ε {epsilon:e} {}", E::NAME);
        assert_close(&name, &widened(&y.to_vec()), &want, rtol, atol * (1.0 + offset));
    }
    for (rows, width) in [(3, 5), (4, 4), (1, 7), (5, 1), (1, 1), (2, 700)] {
        for (offset, epsilon) in [(0.0, 1e-5), (0.0, 1e-12), (0.0, 0.5), (1000.0, 1e-5)] {
            // One number alone is its own mean: what is left is rounding over √ε.
            let epsilon = if width == 1 { 0.5 } else { epsilon };
            check::<f32>(rows, width, offset, epsilon);
            check::<f64>(rows, width, offset, epsilon);
            check::<f16>(rows, width, offset, epsilon);
            check::<bf16>(rows, width, offset, epsilon);
        }
    }
}
