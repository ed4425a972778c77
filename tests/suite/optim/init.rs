//! The beginning of parameters: bounds, variances, fans.

use crate::fixtures::{fixtures_dir, read_json};
use shapeproof::{
    C, Fans, Float, Generator, Hidden, Init, Linear, Model, MultiHeadAttention, Parameter, Static,
    Tensor,
};

/// The largest absolute value and the variance around 0.
fn spread<E: Float>(values: &[E]) -> (f64, f64) {
    let values = values.iter().map(|x| x.to_f64());
    let (count, largest, squares) = values
        .fold((0, 0.0_f64, 0.0), |(n, largest, sum), x| (n + 1, largest.max(x.abs()), sum + x * x));
    (largest, squares / f64::from(count))
}

fn near(got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= share * want, "{got} is not within {share} of {want}");
}

#[test]
fn fused_projections_begin_as_if_each_stood_alone() {
    fn check<E: Float>() {
        let mut fused = Linear::<Model<C<256>>, Hidden<C<768>>, shapeproof::Bias, E>::zeros();
        let fans = Fans { input: 256, output: 256 };
        Init::xavier_uniform().draw_with(fans, &mut fused.weight, &mut Generator::seeded(1));
        let values = fused.weight.value();
        for part in 0..3 {
            let part = values.try_slice(Hidden, part * 256, C::<256>).unwrap().to_vec();
            let (largest, variance) = spread(&part);
            assert!(largest <= 0.108_254 && largest > 0.1082, "{largest}");
            near(variance, 1.0 / 256.0, 0.02);
        }
        // By mistake, with the fans of all three together.
        let all = Init::xavier_uniform().deviation(Fans::of(&fused.weight));
        near(all * 3.0_f64.sqrt(), 0.076_547, 1e-4);
    }
    check::<f32>();
    check::<f64>();
    let attention = MultiHeadAttention::<C<256>, C<8>>::xavier(&mut Generator::seeded(2));
    for map in [&attention.q, &attention.k, &attention.v, &attention.out] {
        let (largest, variance) = spread(&map.weight.value().to_vec());
        assert!(largest <= 0.108_254 && largest > 0.1082, "{largest}");
        near(variance, 1.0 / 256.0, 0.02);
        assert_eq!(map.bias.value(), Tensor::zeros());
    }
}

#[test]
fn bounds_and_deviations_are_those_of_the_reference() {
    let reference = read_json(&fixtures_dir().join("torch/schedules.json"));
    let cases = reference["xavier"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let number = |key: &str| case[key].as_f64().unwrap();
        let size = |key: &str| usize::try_from(case[key].as_u64().unwrap()).unwrap();
        let fans = Fans { input: size("fan_in"), output: size("fan_out") };
        let deviation = Init::xavier_normal().gain(number("gain")).deviation(fans);
        near(deviation, number("normal_std"), 1e-14);
        let uniform = Init::xavier_uniform().gain(number("gain"));
        near(uniform.deviation(fans) * 3.0_f64.sqrt(), number("uniform_bound"), 1e-14);
        near(uniform.deviation(fans).powi(2), number("uniform_variance"), 1e-14);
    }
}

fn drawn<I: Static, O: Static>(init: Init) -> Vec<f64> {
    let mut weight = Parameter::<(Model<I>, Hidden<O>), f64>::zeros();
    init.draw(&mut weight, &mut Generator::seeded(3));
    weight.value().to_vec()
}

#[test]
fn drawn_weights_have_the_rules_spread() {
    let fans = Fans { input: 200, output: 300 };
    for (init, variance, bounded) in [
        (Init::xavier_uniform(), 2.0 / 500.0, true),
        (Init::xavier_normal(), 2.0 / 500.0, false),
        (Init::kaiming_uniform(), 2.0 / 200.0, true),
        (Init::kaiming_normal(), 2.0 / 200.0, false),
        (Init::kaiming_uniform().by_output(), 2.0 / 300.0, true),
        (Init::kaiming_normal().by_output().gain(3.0), 9.0 / 300.0, false),
        (Init::xavier_uniform().gain(5.0 / 3.0).by_output(), 25.0 / 9.0 * 2.0 / 500.0, true),
    ] {
        near(init.deviation(fans).powi(2), variance, 1e-12);
        let (largest, found) = spread(&drawn::<C<200>, C<300>>(init));
        near(found, variance, 0.02);
        let bound = (3.0 * variance).sqrt();
        assert_eq!(largest <= bound, bounded, "{init:?}: {largest} {bound}");
        near(largest, bound, if bounded { 1e-3 } else { 2.0 });
    }
}

#[test]
fn weights_are_those_of_the_seed_and_of_no_other() {
    let layer = |seed| Linear::<Model<C<5>>, Hidden<C<7>>>::xavier(&mut Generator::seeded(seed));
    let weight = layer(4).weight.value();
    assert_eq!(weight, layer(4).weight.value());
    assert_ne!(weight, layer(5).weight.value());
    // A layer drawn by Xavier's rule is one drawn by that rule.
    let mut drawn = Linear::<Model<C<5>>, Hidden<C<7>>>::zeros();
    Init::xavier_uniform().draw(&mut drawn.weight, &mut Generator::seeded(4));
    assert_eq!(drawn.weight.value(), weight);
    assert_eq!(drawn.bias.value(), Tensor::zeros());
}

#[test]
fn empty_weights_are_drawn() {
    for init in
        [Init::xavier_uniform(), Init::kaiming_normal(), Init::kaiming_uniform().by_output()]
    {
        assert!(init.deviation(Fans { input: 0, output: 0 }).is_finite());
        assert!(drawn::<C<0>, C<3>>(init).is_empty());
        assert!(drawn::<C<3>, C<0>>(init).is_empty());
        assert_eq!(drawn::<C<1>, C<1>>(init).len(), 1);
    }
}
