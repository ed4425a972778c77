//! Every case of PyTorch's optimizers.

use super::{Small, given};
use crate::fixtures::{Case, Config, Family, Report, Run, close, skip};
use crate::masks::{narrowed, widened};
use shapeproof::{Adam, AdamW, Float, Optimizer, Sgd, Tensor, UpdateRule};

#[test]
fn parameters_are_those_of_pytorch_after_each_step_in_f32() {
    Report::run("in f32", &Family::open("torch/optim"), check::<f32>);
}

#[test]
fn parameters_are_those_of_pytorch_after_each_step_in_f64() {
    Report::run("in f64", &Family::open("torch/optim"), check::<f64>);
}

fn check<E: Float>(case: &Case) -> Result<Run, String> {
    match case.config.text("optimizer") {
        "SGD" => follow::<Sgd, E>(case, sgd(&case.config)),
        "Adam" => follow::<Adam, E>(case, adam(&case.config)),
        "AdamW" => follow::<AdamW, E>(case, adamw(&case.config)),
        other => Err(format!("the runner does not know the optimizer {other:?}")),
    }
}

fn sgd(config: &Config) -> Sgd {
    Sgd {
        momentum: config.float("momentum"),
        dampening: config.maybe_float("dampening").unwrap_or(0.0),
        nesterov: config.flag("nesterov"),
        weight_decay: config.maybe_float("weight_decay").unwrap_or(0.0),
    }
}

fn betas(config: &Config) -> (f64, f64) {
    let betas = config.value("betas").and_then(|it| it.as_array()).expect("two betas");
    (betas[0].as_f64().unwrap(), betas[1].as_f64().unwrap())
}

fn adam(config: &Config) -> Adam {
    Adam {
        betas: betas(config),
        epsilon: config.float("eps"),
        weight_decay: config.float("weight_decay"),
        amsgrad: config.flag("amsgrad"),
    }
}

fn adamw(config: &Config) -> AdamW {
    let Adam { betas, epsilon, weight_decay, amsgrad } = adam(config);
    AdamW { betas, epsilon, weight_decay, amsgrad }
}

fn follow<R: UpdateRule, E: Float>(case: &Case, rule: R) -> Result<Run, String> {
    if case.name.starts_with("mha_") {
        return skip("attention has no backward yet");
    }
    given_gradients::<R, E>(case, rule)
}

/// One parameter with the gradients of the file.
fn given_gradients<R: UpdateRule, E: Float>(case: &Case, rule: R) -> Result<Run, String> {
    let mut pair = Small::<E>::new(0.0);
    let start = narrowed::<E>(&case.tensors.f64("in.start"));
    pair.weight.set(Tensor::try_from_vec(pair.weight.shape(), start).unwrap());
    let bias = pair.bias.value();
    let mut optimizer = Optimizer::try_new(rule).map_err(|error| error.to_string())?;
    let (gradients, want) = (case.tensors.f64("in.grads"), case.tensors.f64("out64.params"));
    let (rate, steps) = (case.config.float("lr"), case.config.usize("steps"));
    assert_eq!((gradients.len(), want.len()), (6 * steps, 6 * steps));
    for (step, (gradient, want)) in gradients.chunks(6).zip(want.chunks(6)).enumerate() {
        let gradients = given(&pair, gradient);
        optimizer.step(&mut pair, &gradients, rate).map_err(|error| error.to_string())?;
        let got = widened(&pair.weight.value().to_vec());
        let (rtol, atol) = if E::NAME == "f64" { (1e-11, 1e-12) } else { (1e-5, 1e-6) };
        close(&format!("step {step}"), &got, want, rtol, atol)?;
    }
    assert_eq!(pair.bias.value(), bias, "a parameter without a gradient stays");
    Ok(Run::Passed)
}
