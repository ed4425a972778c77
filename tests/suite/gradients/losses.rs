//! Losses: by small examples, and against central differences in f64.

use shapeproof::{
    Batch, C, CrossEntropy, Generator, Mode, Module, Parameter, Seq, Tensor, Train, Vocab,
    mean_squared_error, parameters, try_check_gradients, try_cross_entropy,
};

type Logits = (Batch<C<2>>, Seq<C<3>>, Vocab<C<5>>);

struct One {
    x: Parameter<Logits, f64>,
}
impl Module for One {
    parameters!(x);
}

#[test]
fn cross_entropy_agrees_with_differences() {
    let mut generator = Generator::seeded(1);
    let mut module = One { x: Parameter::new(Tensor::normal(0.0, 2.0, &mut generator)) };
    let targets = Tensor::<(Batch<C<2>>, Seq<C<3>>), i64>::from([[0, 4, -1], [2, -1, 2]]);
    let weights = Tensor::<(Vocab<C<5>>,), f64>::from([1.0, 0.5, 2.0, 0.1, 3.0]);
    let plain = CrossEntropy::new().ignoring(-1);
    let smoothed = plain.clone().try_smoothed(0.2).unwrap();
    let settings = [
        plain.clone(),
        plain.clone().summed(),
        plain.clone().weighted(&weights),
        smoothed.clone(),
        smoothed.clone().weighted(&weights),
        smoothed.weighted(&weights).summed(),
    ];
    for loss in settings {
        try_check_gradients(&mut module, 1e-7, |module, train| {
            loss.try_of(&train.read(&module.x), &targets).unwrap().mul_scalar(3.0)
        })
        .unwrap();
        try_check_gradients(&mut module, 1e-7, |module, train| {
            let turned = train.read(&module.x).transpose(Batch, Seq).exp();
            loss.try_of(&turned, &targets.transpose(Batch, Seq)).unwrap()
        })
        .unwrap();
    }
}

#[test]
fn a_target_that_is_no_class_is_an_error_with_its_place() {
    let logits = Tensor::<(Batch<C<2>>, Seq<C<2>>, Vocab<C<3>>)>::zeros();
    let of = |targets| {
        let targets = Tensor::<(Batch<C<2>>, Seq<C<2>>), i32>::from(targets);
        try_cross_entropy(&logits, &targets).map(|loss| loss.value())
    };
    assert!((of([[0, 1], [2, 0]]).unwrap() - 3f32.ln()).abs() < 1e-6);
    let error = of([[0, 1], [2, 3]]).unwrap_err();
    assert!(error.is_index());
    assert_eq!(error.to_string(), "target 3, at [1, 1], is outside of axis Vocab of size 3");
    let error = of([[0, -100], [2, 1]]).unwrap_err();
    assert_eq!(error.to_string(), "target -100, at [0, 1], is outside of axis Vocab of size 3");
}

#[test]
fn where_no_target_counts_the_loss_and_its_gradient_are_0() {
    let p = Parameter::new(Tensor::<(Batch<C<2>>, Vocab<C<3>>)>::ones());
    let targets = Tensor::<(Batch<C<2>>,), i64>::full(-100);
    let mut train = Train::seeded(1);
    let loss = CrossEntropy::new().ignoring(-100).try_of(&train.read(&p), &targets).unwrap();
    assert_eq!(loss.value(), 0.0);
    assert_eq!(train.backward(&loss).of(&p), Tensor::zeros());
    let none = Tensor::<(Batch<C<0>>, Vocab<C<3>>)>::zeros();
    assert_eq!(try_cross_entropy(&none, &Tensor::<_, u32>::zeros()).unwrap().value(), 0.0);
}

/// The formula of PyTorch's documentation, smoothing and weights and targets that are left out together.
#[test]
fn smoothing_weights_and_ignored_targets_go_together() {
    let mut generator = Generator::seeded(3);
    let logits = Tensor::<Logits, f64>::normal(0.0, 2.0, &mut generator);
    let targets = Tensor::<(Batch<C<2>>, Seq<C<3>>), i64>::from([[0, 4, -1], [2, -1, 2]]);
    let weights = [1.0, 0.5, 2.0, 0.1, 3.0];
    let (share, x) = (0.3, logits.to_vec());
    let (mut sum, mut divisor) = (0.0, 0.0);
    for (row, target) in x.chunks(5).zip(targets.to_vec()) {
        let Ok(target) = usize::try_from(target) else { continue };
        let log_sum = row.iter().map(|x| x.exp()).sum::<f64>().ln();
        for (class, weight) in weights.into_iter().enumerate() {
            let of_target = if class == target { 1.0 - share } else { 0.0 };
            sum += weight * (of_target + share / 5.0) * (log_sum - row[class]);
        }
        divisor += weights[target];
    }
    let loss = CrossEntropy::new().ignoring(-1).try_smoothed(share).unwrap();
    let loss = loss.weighted(&Tensor::from(weights));
    let mean = loss.try_of(&logits, &targets).unwrap().value();
    assert!((mean - sum / divisor).abs() < 1e-12, "{mean} {}", sum / divisor);
    let total = loss.summed().try_of(&logits, &targets).unwrap().value();
    assert!((total - sum).abs() < 1e-12, "{total} {sum}");
}

#[test]
fn where_all_that_counts_weighs_nothing_the_mean_and_its_gradient_are_0() {
    let p = Parameter::new(Tensor::<(Batch<C<2>>, Vocab<C<3>>)>::from([[1.0, 2.0, 3.0]; 2]));
    let targets = Tensor::<(Batch<C<2>>,), u32>::from([1, 1]);
    let weights = Tensor::from([1.0, 0.0, 2.0]);
    for share in [0.0, 0.25] {
        let loss = CrossEntropy::new().try_smoothed(share).unwrap().weighted(&weights);
        let mut train = Train::seeded(1);
        let mean = loss.try_of(&train.read(&p), &targets).unwrap();
        assert_eq!(mean.value(), 0.0);
        assert_eq!(train.backward(&mean).of(&p), Tensor::zeros());
    }
}

#[test]
fn what_weighs_nothing_adds_nothing_whatever_its_logit() {
    let targets = Tensor::<(Batch<C<2>>,), u32>::from([1, 0]);
    for strange in [f64::NEG_INFINITY, f64::INFINITY, f64::NAN] {
        let p = Parameter::new(Tensor::<(Batch<C<2>>, Vocab<C<2>>), f64>::from([
            [0.5, strange],
            [1.0, 2.0],
        ]));
        for (share, summed) in [(0.0, false), (0.1, false), (0.0, true), (0.1, true)] {
            let loss = CrossEntropy::new().try_smoothed(share).unwrap();
            let loss = loss.weighted(&Tensor::from([0.0; 2]));
            let loss = if summed { loss.summed() } else { loss };
            let mut train = Train::seeded(1);
            let value = loss.try_of(&train.read(&p), &targets).unwrap();
            assert_eq!(value.value(), 0.0, "{strange} {share} {summed}");
            assert_eq!(train.backward(&value).of(&p), Tensor::zeros(), "{strange} {share}");
        }
    }
    // A class that is masked by −∞ and weighs nothing, beside one that counts.
    let p = Parameter::new(Tensor::<(Batch<C<2>>, Vocab<C<2>>), f64>::from([
        [0.5, f64::NEG_INFINITY],
        [1.0, 2.0],
    ]));
    for share in [0.0, 0.1] {
        let loss = CrossEntropy::new().try_smoothed(share).unwrap();
        let loss = loss.weighted(&Tensor::from([1.0, 0.0]));
        let mut train = Train::seeded(1);
        let value = loss.try_of(&train.read(&p), &targets).unwrap();
        let smoothed = share / 2.0;
        let row = (1.0 - smoothed) * (1f64.exp() + 1.0).ln();
        assert!((value.value() - row).abs() < 1e-6, "{share}: {} {row}", value.value());
        assert!(train.backward(&value).is_finite());
    }
}

#[test]
fn a_share_that_is_none_is_an_error() {
    let smoothed = |share| CrossEntropy::<Vocab<C<3>>>::new().try_smoothed(share);
    let error = smoothed(1.5).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "expected a share in 0..=1, found 1.5");
    assert!(smoothed(f64::NAN).is_err() && smoothed(0.0).is_ok() && smoothed(1.0).is_ok());
}

#[test]
fn a_target_may_be_larger_than_an_index_of_the_machine_can_be() {
    let logits = Tensor::<(Batch<C<1>>, Vocab<C<3>>)>::zeros();
    let huge = Tensor::<(Batch<C<1>>,), usize>::from([usize::MAX]);
    assert!(try_cross_entropy(&logits, &huge).unwrap_err().is_index());
    assert!(CrossEntropy::new().ignoring(-1).try_of(&logits, &huge).is_err());
}

#[test]
fn squared_error_has_a_gradient_for_both_sides() {
    let p = Parameter::new(Tensor::<(Batch<C<2>>,)>::from([1.0, 5.0]));
    let q = Parameter::new(Tensor::<(Batch<C<2>>,)>::from([2.0, 2.0]));
    let mut train = Train::seeded(1);
    let loss = mean_squared_error(&train.read(&p), &train.read(&q));
    assert_eq!(loss.value(), 5.0);
    let gradients = train.backward(&loss);
    assert_eq!(gradients.of(&p).to_vec(), [-1.0, 3.0]);
    assert_eq!(gradients.of(&q).to_vec(), [1.0, -3.0]);
}
