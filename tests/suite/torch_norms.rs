//! PyTorch's norms, softmax, activations, linear maps, embeddings and losses, forward: the
//! family `norms`. Every size is read at run time.

use shapeproof::{
    Batch, Embedding, EndsWith, Flat, Float, Heads, Hidden, Infer, Key, LayerNorm, Linear, Model,
    NoBias, Query, RmsNorm, Seq, Tensor, Trailing, Vocab, bf16, dyn_size, f16,
};

use crate::fixtures::{Case, Family, Report, Run, close, skip};
use crate::gradients::torch::cross_entropy_of;
use crate::masks::{narrowed, widened};
use crate::torch::{Projection, known_inputs, optional, set, tolerance};

#[test]
fn norms_and_activations_are_what_pytorch_computes_in_f32() {
    Report::run("in f32", &Family::open("torch/norms"), check::<f32>);
}

#[test]
fn norms_and_activations_are_what_pytorch_computes_in_f64() {
    Report::run("in f64", &Family::open("torch/norms"), check::<f64>);
}

#[test]
fn norms_and_activations_are_what_pytorch_computes_in_f16() {
    Report::run("in f16", &Family::open("torch/norms"), check::<f16>);
}

#[test]
fn norms_and_activations_are_what_pytorch_computes_in_bf16() {
    Report::run("in bf16", &Family::open("torch/norms"), check::<bf16>);
}

fn check<E: Float>(case: &Case) -> Result<Run, String> {
    if E::NAME.ends_with("16") && case.name.starts_with("layer_norm_offset") {
        return skip("halves do not tell numbers around 1000 apart");
    }
    let op = case.config.text("op");
    known_inputs(case, &["x", "ids", "logits", "target", "class_weight"])?;
    let got = match op {
        "layer_norm" | "rms_norm" => norm::<E>(case, op),
        "softmax" | "log_softmax" => softmax::<E>(case, op),
        "relu" | "gelu" | "gelu_tanh" | "silu" | "tanh" | "sigmoid" => activation::<E>(case, op),
        "linear" => linear::<E>(case),
        "embedding" => embedding::<E>(case),
        "cross_entropy" => cross_entropy(case),
        other => return Err(format!("unknown op {other:?}")),
    };
    let result = if op == "cross_entropy" { "out64.loss" } else { "out64.output" };
    let (rtol, mut atol) = tolerance::<E>();
    if case.name.starts_with("layer_norm_offset") && E::NAME == "f32" {
        atol = 1e-4; // values around 1000 carry no more
    }
    for (how, values) in got {
        let want = case.tensors.f64(result);
        close(&format!("output ({how})"), &widened(&values), &want, rtol, atol)?;
    }
    Ok(Run::Passed)
}

/// Results, each with how it was computed.
pub(crate) type Computed<E> = Vec<(&'static str, Vec<E>)>;

fn norm<E: Float>(case: &Case, op: &str) -> Computed<E> {
    norm_over_last(&Norm {
        centered: op == "layer_norm",
        dims: case.tensors.dims("in.x").to_vec(),
        trailing: case.config.usizes("normalized_shape").len(),
        x: narrowed(&case.tensors.f64("in.x")),
        weight: optional(case, "param.weight").map(|weight| narrowed(&weight)),
        bias: optional(case, "param.bias").map(|bias| narrowed(&bias)),
        epsilon: case.config.float("eps"),
    })
}

/// A norm whose rank is read at run time.
pub(crate) struct Norm<E> {
    /// A layer norm; otherwise an RMS norm.
    pub(crate) centered: bool,
    pub(crate) dims: Vec<usize>,
    pub(crate) trailing: usize,
    pub(crate) x: Vec<E>,
    pub(crate) weight: Option<Vec<E>>,
    pub(crate) bias: Option<Vec<E>>,
    pub(crate) epsilon: f64,
}

// The axes in front of the norm's and the norm's own, for every rank up to four.
macro_rules! norm_with_axes {
    ($norm:ident; $([$($Lead:ident $lead:ident $i:literal),*] [$($Tail:ident $tail:ident $j:literal),+];)+) => {
        match (&$norm.dims[..$norm.dims.len() - $norm.trailing], $norm.trailing) {
            $( (&[$($lead),*], trailing) if trailing == [$($j),+].len() => {
                $( dyn_size!($lead = $lead); )*
                $( dyn_size!($tail = $norm.dims[$j]); )+
                let tail = ($($Tail($tail),)+);
                let x = Tensor::try_from_vec(($($Lead($lead),)* $($Tail($tail),)+), $norm.x.clone());
                applied::<($($Tail<_>,)+), _, E>($norm, tail, &x.unwrap())
            } )+
            _ => panic!("a norm over {} axes of sizes {:?}", $norm.trailing, $norm.dims),
        }
    };
}

/// Every axis by its own name, and all that can be folded in two.
pub(crate) fn norm_over_last<E: Float>(norm: &Norm<E>) -> Computed<E> {
    let (lead, tail) = norm.dims.split_at(norm.dims.len() - norm.trailing);
    let folded = {
        dyn_size!(rows = lead.iter().product(), width = tail.iter().product());
        let x = Tensor::try_from_vec((Batch(rows), Model(width)), norm.x.clone()).unwrap();
        applied::<Model<_>, _, E>(norm, (Model(width),), &x)
    };
    if norm.dims.len() > 4 {
        return vec![("folded", folded)];
    }
    let named = norm_with_axes! { norm;
        [] [Model m 0];
        [Batch b 0] [Model m 1];
        [] [Seq s 0, Model m 1];
        [Batch b 0, Heads h 1] [Model m 2];
        [Batch b 0] [Seq s 1, Model m 2];
        [] [Heads h 0, Seq s 1, Model m 2];
        [Batch b 0, Heads h 1, Seq s 2] [Model m 3];
        [Batch b 0, Heads h 1] [Seq s 2, Model m 3];
        [Batch b 0] [Heads h 1, Seq s 2, Model m 3];
        [] [Batch b 0, Heads h 1, Seq s 2, Model m 3];
    };
    vec![("folded", folded), ("named", named)]
}

/// The layer for `norm` over the axes `shape`, applied.
fn applied<A: Trailing, S: EndsWith<A::Shape>, E: Float>(
    norm: &Norm<E>,
    shape: A::Shape,
    x: &Tensor<S, E>,
) -> Vec<E> {
    let tensor = |values: &Vec<E>| Tensor::try_from_vec(shape, values.clone()).unwrap();
    if !norm.centered {
        assert!(norm.bias.is_none(), "an RMS norm with a bias");
        let mut layer = RmsNorm::<A, E>::new_in(shape, norm.epsilon);
        norm.weight.iter().for_each(|weight| layer.weight.set(tensor(weight)));
        return layer.forward(x, &mut Infer).to_vec();
    }
    let mut layer = LayerNorm::<A, E>::new_in(shape, norm.epsilon);
    norm.weight.iter().for_each(|weight| layer.weight.set(tensor(weight)));
    norm.bias.iter().for_each(|bias| layer.bias.set(tensor(bias)));
    layer.forward(x, &mut Infer).to_vec()
}

fn softmax<E: Float>(case: &Case, op: &str) -> Computed<E> {
    let dims = case.tensors.dims("in.x");
    let dim = case.config.maybe_int("dim").expect("a dim");
    softmax_along(op, dims, dim, &narrowed(&case.tensors.f64("in.x")))
}

/// `softmax` or `log_softmax` along an axis counted from either end, of any rank.
pub(crate) fn softmax_along<E: Float>(op: &str, dims: &[usize], dim: i64, x: &[E]) -> Computed<E> {
    let rank = i64::try_from(dims.len()).unwrap();
    let at = usize::try_from(if dim < 0 { dim + rank } else { dim }).expect("an axis");
    dyn_size!(outer = dims[..at].iter().product(), n = dims[at]);
    dyn_size!(inner = dims[at + 1..].iter().product());
    let shape = (Batch(outer), Key(n), Query(inner));
    let x = Tensor::try_from_vec(shape, x.to_vec()).unwrap();
    let keep = Tensor::full_in((Key(n),), true);
    match op {
        "softmax" => vec![
            ("in place", x.softmax(Key).to_vec()),
            ("strided", x.transpose(Key, Query).softmax(Key).transpose(Query, Key).to_vec()),
            ("masked by nothing", x.masked_softmax(Key, &keep).to_vec()),
        ],
        "log_softmax" => vec![
            ("in place", x.log_softmax(Key).to_vec()),
            ("strided", x.transpose(Key, Query).log_softmax(Key).transpose(Query, Key).to_vec()),
            ("masked by nothing", x.masked_log_softmax(Key, &keep).to_vec()),
        ],
        other => panic!("unknown op {other:?}"),
    }
}

fn activation<E: Float>(case: &Case, op: &str) -> Computed<E> {
    let x = narrowed::<E>(&case.tensors.f64("in.x"));
    dyn_size!(count = x.len());
    let x = Tensor::try_from_vec((Flat(count),), x).unwrap();
    let y = match op {
        "relu" => x.relu(),
        "gelu" => x.gelu(),
        "gelu_tanh" => x.gelu_tanh(),
        "silu" => x.silu(),
        "tanh" => x.tanh(),
        "sigmoid" => x.sigmoid(),
        other => panic!("unknown op {other:?}"),
    };
    vec![("flat", y.to_vec())]
}

fn linear<E: Float>(case: &Case) -> Computed<E> {
    let (x, x_dims) = (narrowed::<E>(&case.tensors.f64("in.x")), case.tensors.dims("in.x"));
    let [output, input] = *case.tensors.dims("param.weight") else {
        panic!("a weight of two axes")
    };
    let of =
        Projection { weight: case.tensors.f64("param.weight"), bias: optional(case, "param.bias") };
    dyn_size!(rows = x_dims[..x_dims.len() - 1].iter().product(), input = input, output = output);
    let (input, output) = (Model(input), Hidden(output));
    let x = Tensor::try_from_vec((Batch(rows), input), x).unwrap();
    let y = if of.bias.is_some() {
        let mut layer = Linear::<_, _, shapeproof::Bias, E>::zeros_in(input, output);
        set(&mut layer, &of);
        layer.forward(&x, &mut Infer)
    } else {
        let mut layer = Linear::<_, _, NoBias, E>::zeros_in(input, output);
        set(&mut layer, &of);
        layer.forward(&x, &mut Infer)
    };
    // The file's own order of the axes, read through a transposed view.
    let weight = Tensor::try_from_vec((output, input), narrowed(&of.weight)).unwrap();
    let mut product = x.dot(&weight.transpose(Hidden, Model), Model);
    if let Some(bias) = &of.bias {
        product = product.add(&Tensor::try_from_vec((output,), narrowed(bias)).unwrap());
    }
    vec![("layer", y.to_vec()), ("product", product.to_vec())]
}

fn embedding<E: Float>(case: &Case) -> Computed<E> {
    let [rows, width] = *case.tensors.dims("param.weight") else { panic!("a table of two axes") };
    let ids = case.tensors.i64("in.ids");
    dyn_size!(rows = rows, width = width, count = ids.len());
    let table = (Vocab(rows), Model(width));
    let weight = Tensor::try_from_vec(table, narrowed(&case.tensors.f64("param.weight"))).unwrap();
    let mut embedding = Embedding::<_, _, E>::new(weight.clone());
    if let Some(padding) = case.config.maybe_usize("padding_idx") {
        embedding = embedding.try_with_padding(padding).unwrap();
        embedding.weight.set(weight); // a loaded table brings its own padding row
    }
    let flat = Tensor::try_from_vec((Seq(count),), ids.clone()).unwrap();
    let mut results = vec![("flat", embedding.try_forward(&flat, &mut Infer).unwrap().to_vec())];
    if let [batch, length] = *case.tensors.dims("in.ids") {
        dyn_size!(batch = batch, length = length);
        let ids = Tensor::try_from_vec((Batch(batch), Seq(length)), ids).unwrap();
        let rows = embedding.try_forward(&ids, &mut Infer).unwrap();
        results.push(("batched", rows.to_vec()));
    }
    results
}

fn cross_entropy<E: Float>(case: &Case) -> Computed<E> {
    let [rows, classes] = *case.tensors.dims("in.logits") else { panic!("two axes") };
    dyn_size!(rows = rows, classes = classes);
    let shape = (Batch(rows), Vocab(classes));
    let logits = narrowed(&case.tensors.f64("in.logits"));
    let logits: Tensor<_, E> = Tensor::try_from_vec(shape, logits).unwrap();
    vec![("loss", cross_entropy_of(case, &logits).to_vec())]
}
