//! What an optimizer refuses, and that nothing has changed then.

use super::{Pair, Small};
use crate::modules::bits;
use shapeproof::{
    Adam, AdamW, C, Gradients, Hidden, Mode, Model, Module, Optimizer, Parameter, Sgd, Tensor,
    Train, UpdateRule,
};

fn says(result: shapeproof::Result<()>, words: &[&str]) {
    let message = result.unwrap_err().to_string();
    assert!(
        !message.starts_with(char::is_uppercase) || message.starts_with("Nesterov"),
        "{message}"
    );
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message:?}");
    }
}

#[test]
fn a_rate_that_is_no_rate_changes_nothing() {
    let mut pair = Small::<f32>::new(1.0);
    let (before, gradients) = (bits(&pair), pair.gradients());
    let mut optimizer = Optimizer::try_new(AdamW::default()).unwrap();
    for rate in [-1e-3, f64::NAN, f64::INFINITY, 1e300] {
        let words = ["the rate must be at least 0 and below 3.403e38", &format!("found {rate}")];
        says(optimizer.step(&mut pair, &gradients, rate), &words);
        assert_eq!(bits(&pair), before);
    }
    optimizer.step(&mut pair, &gradients, 0.0).unwrap();
    assert_eq!(bits(&pair), before);
    let mut optimizer = optimizer.try_scale_rate(|name| name == "bias", 1e300).unwrap();
    says(
        optimizer.step(&mut pair, &gradients, 1.0),
        &["the rate times its factor must be", "1000"],
    );
    assert_eq!(bits(&pair), before);
}

#[test]
fn gradients_of_another_model_are_refused() {
    let (mut pair, other) = (Small::<f32>::new(1.0), Small::<f32>::new(1.0));
    let before = bits(&pair);
    let mut optimizer = Optimizer::try_new(AdamW::default()).unwrap();
    let words = ["the gradients are of other parameters", "none of the module's 2"];
    says(optimizer.step(&mut pair, &other.gradients(), 0.1), &words);
    // The loss was computed under `Infer`.
    let loss = Tensor::<(Model<C<2>>,)>::ones().sum_all();
    let words =
        ["nothing was computed under the `Train` that went backward", "none of the module's 2"];
    says(optimizer.step(&mut pair, &Train::seeded(1).backward(&loss), 0.1), &words);
    assert_eq!(bits(&pair), before);
}

#[test]
fn a_module_that_does_not_fit_the_state_is_refused_and_nothing_changes() {
    let mut optimizer = Optimizer::try_new(AdamW::default()).unwrap();
    let mut pair = Small::<f32>::new(1.0);
    let gradients = pair.gradients();
    optimizer.step(&mut pair, &gradients, 0.1).unwrap();

    // The first parameter of the list has another size, or only the last.
    let mut wider = Pair::<C<4>, C<2>>::new(1.0);
    let (before, gradients) = (bits(&wider), wider.gradients());
    let words = ["\"norm.weight\" has sizes [4, 2] in f32", "its state [3, 2] in f32"];
    says(optimizer.step(&mut wider, &gradients, 0.1), &words);
    assert_eq!(bits(&wider), before);

    let mut optimizer = Optimizer::try_new(AdamW::default()).unwrap();
    let mut pair = Pair::<C<0>, C<3>>::new(1.0);
    let gradients = pair.gradients();
    optimizer.step(&mut pair, &gradients, 0.1).unwrap();
    let mut double = Pair::<C<0>, C<3>, f64>::new(1.0);
    let (before, gradients) = (bits(&double), double.gradients());
    says(optimizer.step(&mut double, &gradients, 0.1), &["in f64", "its state", "in f32"]);
    assert_eq!(bits(&double), before);

    // The state is what it was too: the first module goes on as one that was never refused.
    let mut twin = Pair::<C<0>, C<3>>::new(1.0);
    let mut fresh = Optimizer::try_new(AdamW::default()).unwrap();
    for _ in 0..2 {
        let gradients = twin.gradients();
        fresh.step(&mut twin, &gradients, 0.1).unwrap();
    }
    let gradients = pair.gradients();
    optimizer.step(&mut pair, &gradients, 0.1).unwrap();
    assert_eq!(bits(&pair), bits(&twin));
}

#[test]
fn a_rule_that_keeps_more_than_there_is_state_of_is_refused_and_nothing_changes() {
    fn check<R: UpdateRule>(before: R, after: R, words: &str) {
        let mut pair = Small::<f32>::new(1.0);
        let mut optimizer = Optimizer::try_new(before).unwrap();
        let gradients = pair.gradients();
        optimizer.step(&mut pair, &gradients, 0.1).unwrap();
        let (kept, gradients) = (bits(&pair), pair.gradients());
        let mut optimizer = optimizer.try_group(|name| name == "bias", after).unwrap();
        says(optimizer.step(&mut pair, &gradients, 0.1), &["parameter \"bias\"", words]);
        assert_eq!(bits(&pair), kept);
    }
    let (plain, largest) = (AdamW::default(), AdamW { amsgrad: true, ..AdamW::default() });
    check(plain, largest, "has 2 tensors of state, but its rule keeps 3");
    check(largest, plain, "has 3 tensors of state, but its rule keeps 2");
    let (still, moving) = (Sgd::default(), Sgd { momentum: 0.9, ..Sgd::default() });
    check(still, moving, "has 0 tensors of state, but its rule keeps 1");
    check(moving, still, "has 1 tensors of state, but its rule keeps 0");
}

struct Twice {
    first: Parameter<(Model<C<1>>,)>,
    second: Parameter<(Hidden<C<1>>,)>,
}

impl Module for Twice {
    shapeproof::parameters!(first as "same", second as "same");
}

#[test]
fn two_parameters_of_one_name_are_refused() {
    let mut twice =
        Twice { first: Parameter::new(Tensor::ones()), second: Parameter::new(Tensor::ones()) };
    let mut train = Train::seeded(1);
    let loss = train.read(&twice.first).sum_all();
    let gradients = train.backward(&loss);
    let mut optimizer = Optimizer::try_new(Sgd::default()).unwrap();
    says(optimizer.step(&mut twice, &gradients, 1.0), &["two parameters have the name \"same\""]);
    assert_eq!(twice.first.value().to_vec(), [1.0]);
    assert!(optimizer.step(&mut twice, &Gradients::default(), 1.0).is_err());
}

#[test]
fn settings_outside_of_what_they_can_be_are_refused() {
    let adam = Adam::default();
    for (rule, word) in [
        (Adam { betas: (1.0, 0.9), ..adam }, "β₁ must be at least 0 and below 1, found 1"),
        (Adam { betas: (0.9, -0.1), ..adam }, "β₂"),
        (Adam { betas: (f64::NAN, 0.9), ..adam }, "β₁"),
        (Adam { epsilon: 0.0, ..adam }, "ε"),
        (Adam { weight_decay: -1.0, ..adam }, "the weight decay must be at least 0 and finite"),
        (Adam { weight_decay: f64::INFINITY, ..adam }, "the weight decay"),
    ] {
        says(Optimizer::try_new(rule).map(drop), &[word]);
        says(Optimizer::try_new(adam).unwrap().try_group(|_| true, rule).map(drop), &[word]);
        let Adam { betas, epsilon, weight_decay, amsgrad } = rule;
        let rule = AdamW { betas, epsilon, weight_decay, amsgrad };
        says(Optimizer::try_new(rule).map(drop), &[word]);
    }
    for (rule, word) in [
        (Sgd { momentum: 1.0, ..Sgd::default() }, "the momentum"),
        (Sgd { dampening: -1.0, ..Sgd::default() }, "the dampening"),
        (Sgd { weight_decay: f64::NAN, ..Sgd::default() }, "the weight decay"),
        (Sgd { nesterov: true, ..Sgd::default() }, "Nesterov's rule needs a momentum above 0"),
        (
            Sgd { nesterov: true, momentum: 0.5, dampening: 0.5, weight_decay: 0.0 },
            "a dampening of 0, found 0.5 and 0.5",
        ),
    ] {
        says(Optimizer::try_new(rule).map(drop), &[word]);
    }
    let optimizer = Optimizer::try_new(adam).unwrap();
    says(optimizer.try_scale_rate(|_| true, -1.0).map(drop), &["the factor of the rate"]);
}
