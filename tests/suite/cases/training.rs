//! What training does and inference must not; gradients where plain formulas divide by 0.

use shapeproof::{
    Attention, Batch, C, Dropout, HeadDim, Heads, Infer, Key, LayerNorm, Mode, Model, NoMask,
    Parameter, Query, Tensor, Train,
};

type Queries = (Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<1>>);
type Keys = (Batch<C<1>>, Heads<C<1>>, Key<C<4>>, HeadDim<C<1>>);

/// Four equal weights over values of 1, with dropout of one half: the output and the weights.
fn dropped(mode: &mut impl Mode) -> (f32, Vec<f32>) {
    let (q, k) = (Tensor::<Queries>::zeros(), Tensor::<Keys>::ones());
    let attention = Attention::new().dropout(Dropout::try_new(0.5).unwrap(), mode);
    let (y, weights) = attention.apply_with_weights(&q, &k, &k, NoMask);
    (y.to_vec()[0], weights.to_vec())
}

// pytorch/pytorch#124464
#[test]
fn dropout_of_attention_is_off_at_inference_and_scales_what_it_keeps() {
    for _ in 0..100 {
        assert_eq!(dropped(&mut Infer), (1.0, vec![0.25; 4]));
    }
    let seeds = 2000;
    let mut sum = 0.0;
    for seed in 0..seeds {
        let (y, weights) = dropped(&mut Train::seeded(seed));
        assert!(weights.iter().all(|&weight| weight == 0.0 || weight == 0.5));
        assert_eq!(y, weights.iter().sum::<f32>(), "the weights are those after dropout");
        sum += f64::from(y);
    }
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let mean = sum / seeds as f64;
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
}

// harvardnlp/annotated-transformer#122
#[test]
fn a_constant_row_of_a_norm_has_a_finite_gradient() {
    let x = Parameter::new(Tensor::<(Batch<C<2>>, Model<C<4>>)>::from([[7.5; 4], [0.1; 4]]));
    for epsilon in [1e-5, 1e-12] {
        let norm = LayerNorm::<Model<C<4>>>::new(epsilon);
        let mut train = Train::seeded(1);
        let y = norm.forward(&train.read(&x), &mut train);
        let weights = Tensor::<(Model<C<4>>,)>::from([1.0, -1.0, 2.0, 0.5]);
        let gradients = train.backward(&y.mul(&weights).sum_all());
        // The weights less their mean, divided by √ε; the sum of a row's gradient is 0.
        let row = [0.375, -1.625, 1.375, -0.125].map(|w: f64| w / epsilon.sqrt());
        for (actual, expected) in gradients.of(&x).to_vec().iter().zip(row.iter().cycle()) {
            let error = (f64::from(*actual) - expected).abs();
            assert!(error <= 1e-5 * expected.abs(), "{epsilon}: {actual} {expected}");
        }
    }
}
