//! Every case of PyTorch's optimizers.

use super::{Small, given};
use crate::fixtures::{Case, Config, Family, Report, Run, close};
use crate::masks::{narrowed, widened};
use crate::torch::tolerance;
use shapeproof::{
    Adam, AdamW, AnyTensor, AttentionBias, Batch, Bias, C, Float, FloatTensor, HeadDim, Key, Model,
    MultiHeadAttention, NoBias, Optimizer, Query, Seq, Sgd, Tensor, Train, UpdateRule, bf16, f16,
    mean_squared_error, parameters, parameters_mut,
};

#[test]
fn parameters_are_those_of_pytorch_after_each_step_in_f32() {
    Report::run("in f32", &Family::open("torch/optim"), check::<f32>);
}

#[test]
fn parameters_are_those_of_pytorch_after_each_step_in_f64() {
    Report::run("in f64", &Family::open("torch/optim"), check::<f64>);
}

#[test]
fn parameters_are_those_of_pytorch_after_each_step_in_f16() {
    Report::run("in f16", &Family::open("torch/optim"), check::<f16>);
}

#[test]
fn parameters_are_those_of_pytorch_after_each_step_in_bf16() {
    Report::run("in bf16", &Family::open("torch/optim"), check::<bf16>);
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
    let optimizer = Optimizer::try_new(rule).map_err(|error| error.to_string())?;
    match case.name.starts_with("mha_") {
        false => given_gradients::<R, E>(case, optimizer),
        true if case.config.flag("bias") => fitted_attention::<Bias, R, E>(case, optimizer),
        true => fitted_attention::<NoBias, R, E>(case, optimizer),
    }
}

/// One parameter with the gradients of the file.
fn given_gradients<R: UpdateRule, E: Float>(
    case: &Case,
    mut optimizer: Optimizer<R>,
) -> Result<Run, String> {
    let mut pair = Small::<E>::new(0.0);
    let start = narrowed::<E>(&case.tensors.f64("in.start"));
    pair.weight.set(Tensor::try_from_vec(pair.weight.shape(), start).unwrap());
    let bias = pair.bias.value();
    let (gradients, want) = (case.tensors.f64("in.grads"), case.tensors.f64("out64.params"));
    let (rate, steps) = (case.config.float("lr"), case.config.usize("steps"));
    assert_eq!((gradients.len(), want.len()), (6 * steps, 6 * steps));
    for (step, (gradient, want)) in gradients.chunks(6).zip(want.chunks(6)).enumerate() {
        let gradients = given(&pair, gradient);
        optimizer.step(&mut pair, &gradients, rate).map_err(|error| error.to_string())?;
        let got = widened(&pair.weight.value().to_vec());
        // Of halves, the start, the gradients and what is shown of the result are rounded.
        let (rtol, atol) = match E::NAME {
            "f64" => (1e-11, 1e-12),
            "f32" => (1e-5, 1e-6),
            _ => tolerance::<E>(),
        };
        close(&format!("step {step}"), &got, want, rtol, atol)?;
    }
    assert_eq!(pair.bias.value(), bias, "a parameter without a gradient stays");
    Ok(Run::Passed)
}

type Attention<B, E> = MultiHeadAttention<C<4>, C<2>, C<4>, C<4>, B, E>;
type Activations<E> = Tensor<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>), E>;

/// An attention layer that is fitted to a target. Its steps are taken one by one, so that what is tested is
/// the optimizer.
fn fitted_attention<B: AttentionBias, R: UpdateRule, E: Float>(
    case: &Case,
    mut optimizer: Optimizer<R>,
) -> Result<Run, String> {
    let mut layer = Attention::<B, E>::zeros();
    for (name, parameter) in parameters_mut(&mut layer) {
        let value = of_case(case, "param", &name, 0);
        let value = AnyTensor::try_from_vec(&parameter.dims(), narrowed::<E>(&value)).unwrap();
        parameter.try_set(FloatTensor::new(value)).unwrap();
    }
    let given = |name: &str| -> Activations<E> {
        let values = narrowed::<E>(&case.tensors.f64(name));
        Tensor::try_from_vec((Batch(C), Seq(C), Model(C)), values).unwrap()
    };
    let (x, target) = (given("in.x"), given("in.target"));
    let (rate, steps) = (case.config.float("lr"), case.config.usize("steps"));
    let (rtol, atol) = tolerance::<E>();
    let exact = case.config.text("optimizer") == "SGD" || !case.config.flag("bias");
    for step in 0..steps {
        let mut train = Train::seeded(1);
        let loss = mean_squared_error(&attended(&layer, &x, &mut train), &target);
        let mut gradients = train.backward(&loss);
        let near = |name: &str, got: f64| {
            close(
                &format!("{name} {step}"),
                &[got],
                &case.tensors.f64(name)[step..=step],
                rtol,
                atol,
            )
        };
        near("out64.loss", loss.value().to_f64())?;
        if let Some(limit) = case.config.maybe_float("clip_norm") {
            near("out64.grad_norm", gradients.try_clip_norm(limit).unwrap())?;
        }
        drop(loss);
        optimizer.step(&mut layer, &gradients, rate).map_err(|error| error.to_string())?;
        for (name, parameter) in parameters(&layer) {
            // Its gradient is 0 but for rounding, which Adam turns into whole steps.
            if name != "k_proj.bias" || exact {
                let got = parameter.value().to::<f64>().to_vec();
                let want = of_case(case, "out64", &name, step);
                close(&format!("{name} {step}"), &got, &want, rtol, atol)?;
            }
        }
    }
    let partly = "the key bias has no gradient but rounding";
    Ok(if exact { Run::Passed } else { Run::Partly(partly.into()) })
}

fn attended<B: AttentionBias, E: Float>(
    layer: &Attention<B, E>,
    x: &Activations<E>,
    train: &mut Train,
) -> Activations<E> {
    let q = layer.q.forward(x, train).split_heads::<C<2>>().rename(Seq, Query);
    let k = layer.k.forward(x, train).split_heads::<C<2>>().rename(Seq, Key);
    let v = layer.v.forward(x, train).split_heads::<C<2>>().rename(Seq, Key);
    let scores = q.matmul(&k.transpose(Key, HeadDim)).div_scalar(2.0_f64.sqrt());
    let y = scores.softmax(Key).matmul(&v).rename(Query, Seq);
    layer.out.forward(&y.merge_heads(), train)
}

/// The values of a parameter, by our name and in our order, from its place in the packed ones of a step.
fn of_case(case: &Case, kind: &str, name: &str, step: usize) -> Vec<f64> {
    let (layer, what) = name.split_once('.').unwrap();
    let part = ["q_proj", "k_proj", "v_proj"].iter().position(|it| *it == layer);
    let (key, parts) = match part {
        Some(_) => (format!("{kind}.in_proj_{what}"), 3),
        None => (format!("{kind}.{layer}.{what}"), 1),
    };
    let count = if what == "weight" { 16 } else { 4 };
    let start = (step * parts + part.unwrap_or(0)) * count;
    let values = case.tensors.f64(&key)[start..start + count].to_vec();
    match what {
        "weight" => (0..16).map(|at| values[at % 4 * 4 + at / 4]).collect(),
        _ => values,
    }
}
