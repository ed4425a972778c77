//! PyTorch's gradients of norms, softmax, activations, linear maps, embeddings and losses: the family
//! `norms`. Every size is read at run time.

use shapeproof::{
    Batch, CrossEntropy, Embedding, Flat, Float, Hidden, Key, LayerNorm, Linear, Mode, Model,
    Parameter, Query, RmsNorm, Seq, Size, Tensor, Train, Vocab, bf16, dyn_size, f16,
};

use crate::fixtures::{Case, Family, Report, Run, close, skip};
use crate::masks::widened;
use crate::torch::{known_inputs, loss, optional, tensor, tolerance};

#[test]
fn gradients_are_what_pytorch_computes_in_f32() {
    Report::run("in f32", &Family::open("torch/norms"), check::<f32>);
}

#[test]
fn gradients_are_what_pytorch_computes_in_f64() {
    Report::run("in f64", &Family::open("torch/norms"), check::<f64>);
}

#[test]
fn gradients_are_what_pytorch_computes_in_f16() {
    Report::run("in f16", &Family::open("torch/norms"), check::<f16>);
}

#[test]
fn gradients_are_what_pytorch_computes_in_bf16() {
    Report::run("in bf16", &Family::open("torch/norms"), check::<bf16>);
}

fn check<E: Float>(case: &Case) -> Result<Run, String> {
    let is_half = E::NAME.ends_with("16");
    if is_half && case.name.starts_with("layer_norm_offset") {
        return skip("halves do not tell numbers around 1000 apart");
    }
    known_inputs(case, &["x", "ids", "logits", "target", "class_weight"])?;
    let op = case.config.text("op");
    let got = match op {
        "layer_norm" | "rms_norm" => norm::<E>(case, op),
        "softmax" | "log_softmax" => softmax::<E>(case, op),
        "relu" | "gelu" | "gelu_tanh" | "silu" | "tanh" | "sigmoid" => activation::<E>(case, op),
        "linear" => linear::<E>(case),
        "embedding" => embedding::<E>(case),
        "cross_entropy" => cross_entropy::<E>(case),
        other => return Err(format!("unknown op {other:?}")),
    };
    let (rtol, mut atol) = tolerance::<E>();
    if case.name.starts_with("layer_norm_offset") && E::NAME == "f32" {
        atol = 6e-4; // values around 1000 carry no more
    }
    if is_half && case.name == "layer_norm_constant_rows" {
        atol *= 316.0; // 1/√ε: what the rows' gradients are multiplied by
    }
    let asked = case.tensors.names().filter(|name| name.starts_with("grad64.")).count();
    assert_eq!(got.len(), asked, "{}: gradients that are not compared", case.name);
    for (name, values) in got {
        let want = case.tensors.f64(&format!("grad64.{name}"));
        close(&format!("gradient of {name}"), &widened(&values), &want, rtol, atol)?;
    }
    Ok(Run::Passed)
}

type Computed<E> = Vec<(&'static str, Vec<<E as Float>::Wide>)>;

fn norm<E: Float>(case: &Case, op: &str) -> Computed<E> {
    let size = case.config.usizes("normalized_shape").iter().product();
    dyn_size!(rows = case.tensors.f64("in.x").len() / size, size = size);
    let shape = (Batch(rows), Model(size));
    let x = Parameter::new(tensor::<_, E>(case, "in.x", shape));
    let set = |parameter: &mut Parameter<_, E>, key| {
        if case.tensors.has(key) {
            parameter.set(tensor(case, key, (Model(size),)));
        }
    };
    let epsilon = case.config.float("eps");
    let mut train = Train::seeded(0);
    let (mut layer, mut rms) = (
        LayerNorm::<Model<_>, E>::new_in((Model(size),), epsilon),
        RmsNorm::<Model<_>, E>::new_in((Model(size),), epsilon),
    );
    set(&mut layer.weight, "param.weight");
    set(&mut layer.bias, "param.bias");
    set(&mut rms.weight, "param.weight");
    let is_layer = op == "layer_norm";
    let input = train.read(&x);
    let y =
        if is_layer { layer.forward(&input, &mut train) } else { rms.forward(&input, &mut train) };
    let gradients = train.backward(&loss(case, &y));
    let weight = if is_layer { &layer.weight } else { &rms.weight };
    let mut got = vec![("x", gradients.of(&x).to_vec())];
    if optional(case, "param.weight").is_some() {
        got.push(("weight", gradients.of(weight).to_vec()));
    }
    if optional(case, "param.bias").is_some() {
        got.push(("bias", gradients.of(&layer.bias).to_vec()));
    }
    got
}

fn softmax<E: Float>(case: &Case, op: &str) -> Computed<E> {
    let dims = case.tensors.dims("in.x");
    let (dim, rank) = (case.config.maybe_int("dim").unwrap(), i64::try_from(dims.len()).unwrap());
    let at = usize::try_from(if dim < 0 { dim + rank } else { dim }).unwrap();
    dyn_size!(outer = dims[..at].iter().product(), n = dims[at]);
    dyn_size!(inner = dims[at + 1..].iter().product());
    let x = Parameter::new(tensor::<_, E>(case, "in.x", (Batch(outer), Key(n), Query(inner))));
    let mut train = Train::seeded(0);
    let input = train.read(&x);
    let y = if op == "softmax" { input.softmax(Key) } else { input.log_softmax(Key) };
    let gradients = train.backward(&loss(case, &y));
    vec![("x", gradients.of(&x).to_vec())]
}

fn activation<E: Float>(case: &Case, op: &str) -> Computed<E> {
    dyn_size!(count = case.tensors.f64("in.x").len());
    let x = Parameter::new(tensor::<_, E>(case, "in.x", (Flat(count),)));
    let mut train = Train::seeded(0);
    let input = train.read(&x);
    let y = match op {
        "relu" => input.relu(),
        "gelu" => input.gelu(),
        "gelu_tanh" => input.gelu_tanh(),
        "silu" => input.silu(),
        "tanh" => input.tanh(),
        _ => input.sigmoid(),
    };
    let gradients = train.backward(&loss(case, &y));
    vec![("x", gradients.of(&x).to_vec())]
}

fn linear<E: Float>(case: &Case) -> Computed<E> {
    let [output, input] = *case.tensors.dims("param.weight") else { panic!("two axes") };
    dyn_size!(rows = case.tensors.f64("in.x").len() / input, input = input, output = output);
    let (input, output) = (Model(input), Hidden(output));
    // The file's own order of the axes: (out, in).
    let weight = tensor::<_, E>(case, "param.weight", (output, input)).transpose(Hidden, Model);
    let layer = Linear::new(weight, tensor(case, "param.bias", (output,)));
    let x = Parameter::new(tensor::<_, E>(case, "in.x", (Batch(rows), input)));
    let mut train = Train::seeded(0);
    let y = layer.forward(&train.read(&x), &mut train);
    let gradients = train.backward(&loss(case, &y));
    vec![
        ("x", gradients.of(&x).to_vec()),
        ("weight", gradients.of(&layer.weight).transpose(Model, Hidden).to_vec()),
        ("bias", gradients.of(&layer.bias).to_vec()),
    ]
}

fn embedding<E: Float>(case: &Case) -> Computed<E> {
    let [rows, width] = *case.tensors.dims("param.weight") else { panic!("two axes") };
    let ids = case.tensors.i64("in.ids");
    dyn_size!(rows = rows, width = width, count = ids.len());
    let table = tensor::<_, E>(case, "param.weight", (Vocab(rows), Model(width)));
    let mut embedding = Embedding::new(table.clone());
    if let Some(padding) = case.config.maybe_usize("padding_idx") {
        embedding = embedding.try_with_padding(padding).unwrap();
        embedding.weight.set(table); // a loaded table brings its own padding row
    }
    let ids = Tensor::try_from_vec((Seq(count),), ids).unwrap();
    let mut train = Train::seeded(0);
    let y = embedding.try_forward(&ids, &mut train).unwrap();
    let gradients = train.backward(&loss(case, &y));
    vec![("weight", gradients.of(&embedding.weight).to_vec())]
}

fn cross_entropy<E: Float>(case: &Case) -> Computed<E> {
    let [rows, classes] = *case.tensors.dims("in.logits") else { panic!("two axes") };
    dyn_size!(rows = rows, classes = classes);
    let logits = Parameter::new(tensor::<_, E>(case, "in.logits", (Batch(rows), Vocab(classes))));
    let mut train = Train::seeded(0);
    let loss = cross_entropy_of(case, &train.read(&logits));
    let gradients = train.backward(&loss.mul(&tensor(case, "up.loss", ())));
    vec![("logits", gradients.of(&logits).to_vec())]
}

/// The loss of these logits with the case's targets and settings.
pub(crate) fn cross_entropy_of<B: Size, V: Size, E: Float>(
    case: &Case,
    logits: &Tensor<(Batch<B>, Vocab<V>), E>,
) -> Tensor<(), E> {
    let (rows, classes) = logits.shape();
    let targets = Tensor::try_from_vec((rows,), case.tensors.i64("in.target")).unwrap();
    let mut settings = CrossEntropy::new()
        .ignoring(case.config.maybe_int("ignore_index").unwrap())
        .try_smoothed(case.config.float("label_smoothing"))
        .unwrap();
    if case.tensors.has("in.class_weight") {
        settings = settings.weighted(&tensor(case, "in.class_weight", (classes,)));
    }
    if case.config.text("reduction") == "sum" {
        settings = settings.summed();
    }
    settings.try_of(logits, &targets).unwrap()
}
