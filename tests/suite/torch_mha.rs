//! PyTorch's `MultiheadAttention`: every case of the family `mha`, forward and, where it has numbers,
//! backward.
//!
//! Widths and heads are types, so they are dispatched over a closed list; batch and
//! lengths are read at run time.

use shapeproof::{
    AttentionBias, Batch, Bias, BiasKind, DivisibleBy, Float, Gradients, Heads, Infer, Key, Mode,
    Model, MultiHeadAttention, NoBias, Parameter, Query, Seq, Size, Static, Tensor, Train, bf16,
    dispatch, dyn_size, f16,
};

use crate::fixtures::{Case, Family, Report, Run, close};
use crate::masks::{Part, Sizes, joined, narrowed, widened};
use crate::oracle;
use crate::torch::{
    Projection, known_inputs, optional, part, projections, set, tolerance, weight_of,
};

#[test]
fn multi_head_attention_is_what_pytorch_computes_in_f32() {
    Report::run("in f32", &Family::open("torch/mha"), check::<f32>);
}

#[test]
fn multi_head_attention_is_what_pytorch_computes_in_f64() {
    Report::run("in f64", &Family::open("torch/mha"), check::<f64>);
}

#[test]
fn multi_head_attention_is_what_pytorch_computes_in_f16() {
    Report::run("in f16", &Family::open("torch/mha"), check::<f16>);
}

#[test]
fn multi_head_attention_is_what_pytorch_computes_in_bf16() {
    Report::run("in bf16", &Family::open("torch/mha"), check::<bf16>);
}

fn check<E: Float>(case: &Case) -> Result<Run, String> {
    let config = &case.config;
    known_inputs(case, &["query", "key", "value", "key_padding_mask", "attn_mask"])?;
    let (width, heads) = (config.usize("embed_dim"), config.usize("heads"));
    let (kdim, vdim) = (config.usize("kdim"), config.usize("vdim"));
    let sizes = (width, heads, kdim, vdim);
    dispatch!((sizes.0, sizes.1, sizes.2, sizes.3) as (M, H, KM, VM) in [
        (8, 2, 8, 8), (10, 2, 10, 10), (9, 3, 9, 9), (10, 2, 7, 3), (8, 2, 3, 7), (8, 4, 8, 8),
        (4, 2, 4, 4), (8, 4, 5, 9), (9, 3, 9, 5)
    ] => match config.flag("bias") {
        true => cross::<M, H, KM, VM, Bias, E>(case),
        false => cross::<M, H, KM, VM, NoBias, E>(case),
    })
    .map_err(|error| error.to_string())??;
    if case.tensors.has("in.key") || case.tensors.has("in.value") {
        return Ok(Run::Passed);
    }
    dispatch!((width, heads) as (M, H) in [(8, 2), (10, 2), (9, 3), (8, 4), (4, 2)] =>
    match config.flag("bias") {
        true => fused::<M, H, Bias, E>(case),
        false => fused::<M, H, NoBias, E>(case),
    })
    .map_err(|error| error.to_string())??;
    Ok(Run::Passed)
}

/// Self attention by the fused projection.
fn fused<M, H, B, E>(case: &Case) -> Result<(), String>
where
    M: DivisibleBy<H>,
    H: Static,
    B: AttentionBias,
    E: Float,
{
    let layer = layer::<M, H, M, M, B, E>(case);
    let sizes = sizes(case);
    dyn_size!(batch = sizes.batch, length = sizes.queries);
    let x = activations(case, "in.query", Batch(batch), Seq(length), Model(M::default()));
    let shape = (Batch(batch), Heads(H::default()), Query(length), Key(length));
    let parts: Vec<_> = parts(case).iter().map(|part| part.typed(shape)).collect();
    let y = layer.forward(&x, joined(&parts), &mut Infer);
    compare_output(case, "fused", &y)?;
    let (y, weights) = layer.forward_with_weights(&x, joined(&parts), &mut Infer);
    compare_output(case, "fused, with weights", &y)?;
    compare_weights(case, "fused", &weights)
}

/// Attention to keys and values, which for self attention are the queries.
fn cross<M, H, KM, VM, B, E>(case: &Case) -> Result<(), String>
where
    M: DivisibleBy<H>,
    H: Static,
    KM: Static,
    VM: Static,
    B: AttentionBias,
    E: Float,
{
    let layer = layer::<M, H, KM, VM, B, E>(case);
    let sizes = sizes(case);
    dyn_size!(batch = sizes.batch, queries = sizes.queries, keys = sizes.keys);
    let (batch, query, key) = (Batch(batch), Seq(queries), Seq(keys));
    let [key_name, value_name] = sources(case);
    let x = activations(case, "in.query", batch, query, Model(M::default()));
    let k = activations(case, key_name, batch, key, Model(KM::default()));
    let v = activations(case, value_name, batch, key, Model(VM::default()));
    let shape = (batch, Heads(H::default()), Query(queries), Key(keys));
    let parts: Vec<_> = parts(case).iter().map(|part| part.typed(shape)).collect();
    let y = layer.cross(&x, &k, &v, joined(&parts), &mut Infer);
    compare_output(case, "cross", &y)?;
    let (y, weights) = layer.cross_with_weights(&x, &k, &v, joined(&parts), &mut Infer);
    compare_output(case, "cross, with weights", &y)?;
    compare_weights(case, "cross", &weights)?;
    if case.name.starts_with("row_all_masked") {
        return Ok(()); // PyTorch has NaN there
    }

    let (of_x, of_k, of_v) = (Parameter::new(x), Parameter::new(k), Parameter::new(v));
    let mut train = Train::seeded(0);
    let x = train.read(&of_x);
    let k = if key_name == "in.query" { None } else { Some(train.read(&of_k)) };
    let v = if value_name == "in.value" { Some(train.read(&of_v)) } else { None };
    // What is one tensor to PyTorch is one here.
    let own = k.as_ref().map_or_else(|| x.erase(), Tensor::erase);
    let k = own.try_typed(of_k.shape()).unwrap();
    let v = v.unwrap_or_else(|| own.try_typed(of_v.shape()).unwrap());
    let up = activations(case, "up.output", batch, query, Model(M::default()));
    let mut loss = layer.cross(&x, &k, &v, joined(&parts), &mut train).mul(&up).sum_all();
    if case.tensors.has("up.weights") {
        let (_, weights) = layer.cross_with_weights(&x, &k, &v, joined(&parts), &mut train);
        let values = |up| narrowed(&case.tensors.f64(up));
        let of_weights = if case.config.flag("average_attn_weights") {
            let mean = weights.mean(Heads);
            mean.mul(&Tensor::try_from_vec(mean.shape(), values("up.weights")).unwrap()).sum_all()
        } else {
            weights.mul(&Tensor::try_from_vec(shape, values("up.weights")).unwrap()).sum_all()
        };
        loss = loss.add(&of_weights);
    }
    let gradients = train.backward(&loss);
    let mut found = vec![("query", in_order(case, &gradients.of(&of_x)))];
    if case.tensors.has("in.key") {
        found.push(("key", in_order(case, &gradients.of(&of_k))));
    }
    if case.tensors.has("in.value") {
        found.push(("value", in_order(case, &gradients.of(&of_v))));
    }
    found.extend(of_parameters(case, &layer, &gradients));
    let asked = case.tensors.names().filter(|name| name.starts_with("grad64.")).count();
    if asked != found.len() {
        return Err(format!("{asked} gradients, of which {} are compared", found.len()));
    }
    let (rtol, atol) = tolerance::<E>();
    for (name, found) in found {
        let want = case.tensors.f64(&format!("grad64.{name}"));
        // A tensor's gradient is as exact as its largest element.
        let largest = want.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
        close(&format!("gradient of {name}"), &found, &want, rtol, atol * largest)?;
    }
    Ok(())
}

/// The gradients of the layer's parameters, as the case names them.
fn of_parameters<M, H, KM, VM, B, E>(
    case: &Case,
    layer: &MultiHeadAttention<M, H, KM, VM, B, E>,
    gradients: &Gradients,
) -> Vec<(&'static str, Vec<f64>)>
where
    M: DivisibleBy<H>,
    H: Static,
    KM: Static,
    VM: Static,
    B: AttentionBias,
    E: Float,
{
    let mut found = Vec::new();
    let stacked = [
        weight_of(gradients, &layer.q),
        weight_of(gradients, &layer.k),
        weight_of(gradients, &layer.v),
    ];
    if case.tensors.has("grad64.in_proj_weight") {
        found.push(("in_proj_weight", stacked.concat()));
    } else {
        found.extend(["q_proj_weight", "k_proj_weight", "v_proj_weight"].into_iter().zip(stacked));
    }
    let biases = [
        <B::Query as BiasKind>::get(&layer.q.bias).map(|p| widened(&gradients.of(p).to_vec())),
        <B::Key as BiasKind>::get(&layer.k.bias).map(|p| widened(&gradients.of(p).to_vec())),
        <B::Value as BiasKind>::get(&layer.v.bias).map(|p| widened(&gradients.of(p).to_vec())),
    ];
    if case.tensors.has("grad64.in_proj_bias") {
        found.push(("in_proj_bias", biases.into_iter().flatten().flatten().collect()));
    }
    found.push(("out_proj.weight", weight_of(gradients, &layer.out)));
    if let Some(bias) = <B::Out as BiasKind>::get(&layer.out.bias) {
        found.push(("out_proj.bias", widened(&gradients.of(bias).to_vec())));
    }
    for (name, parameter) in [("bias_k", &layer.bias_k), ("bias_v", &layer.bias_v)] {
        found.extend(parameter.iter().map(|p| (name, widened(&gradients.of(p).to_vec()))));
    }
    found
}

/// The elements in the order of the case's activations.
fn in_order<B: Size, S: Size, M: Size, E: Float>(
    case: &Case,
    x: &Tensor<(Batch<B>, Seq<S>, Model<M>), E>,
) -> Vec<f64> {
    let seq_first = case.tensors.dims("in.query").len() == 3 && !case.config.flag("batch_first");
    widened(&if seq_first { x.transpose(Batch, Seq).to_vec() } else { x.to_vec() })
}

/// Where keys and values come from.
fn sources(case: &Case) -> [&'static str; 2] {
    let key = if case.tensors.has("in.key") { "in.key" } else { "in.query" };
    [key, if case.tensors.has("in.value") { "in.value" } else { key }]
}

fn sizes(case: &Case) -> Sizes {
    let (heads, width) = (case.config.usize("heads"), case.config.usize("embed_dim"));
    let batch = case.config.maybe_usize("batch").unwrap_or(1); // none: one sample, without an axis
    let lengths = ["query_len", "key_len"].map(|name| case.config.usize(name));
    Sizes::new(batch, heads, lengths[0], lengths[1], width / heads)
}

/// A layer with the case's parameters. The packed projection has q, k and v one below
/// the other; every weight is over (out, in).
fn layer<M, H, KM, VM, B, E>(case: &Case) -> MultiHeadAttention<M, H, KM, VM, B, E>
where
    M: DivisibleBy<H>,
    H: Static,
    KM: Static,
    VM: Static,
    B: AttentionBias,
    E: Float,
{
    let [q, k, v] = projections(case, "param.");
    let out = Projection {
        weight: case.tensors.f64("param.out_proj.weight"),
        bias: optional(case, "param.out_proj.bias"),
    };
    let mut layer = MultiHeadAttention::zeros();
    set(&mut layer.q, &q);
    set(&mut layer.k, &k);
    set(&mut layer.v, &v);
    set(&mut layer.out, &out);
    if case.config.flag("add_bias_kv") {
        let row = |name: &str| {
            let values = narrowed(&case.tensors.f64(name));
            Tensor::try_from_vec((Model(M::default()),), values).unwrap()
        };
        layer = layer.with_bias_kv(row("param.bias_k"), row("param.bias_v"));
    }
    match case.config.flag("add_zero_attn") {
        true => layer.with_zero_attention(),
        false => layer,
    }
}

/// (B,L,E), or (L,B,E) where the case has the sequence first, or (L,E): as (B,L,E).
fn activations<B: Size, S: Size, M: Size, E: Float>(
    case: &Case,
    name: &str,
    batch: Batch<B>,
    seq: Seq<S>,
    model: Model<M>,
) -> Tensor<(Batch<B>, Seq<S>, Model<M>), E> {
    let values = narrowed(&case.tensors.f64(name));
    if case.tensors.dims(name).len() == 3 && !case.config.flag("batch_first") {
        // A view: the layer reads it as it lies.
        return Tensor::try_from_vec((seq, batch, model), values).unwrap().permute();
    }
    Tensor::try_from_vec((batch, seq, model), values).unwrap()
}

/// The case's masks. A mask over (B·H,L,S) has its first axis folded from batch and
/// heads, in that order.
fn parts(case: &Case) -> Vec<Part> {
    let sizes = sizes(case);
    let [batch, heads, queries, keys] = sizes.scores();
    let mut parts = Vec::new();
    if case.tensors.has("in.attn_mask") {
        let dims = case.tensors.dims("in.attn_mask");
        let dims = match *dims {
            [folded, l, s] if folded == batch * heads => vec![batch, heads, l, s],
            _ => dims.to_vec(),
        };
        parts.push(part(case, "in.attn_mask", sizes, &dims));
    }
    if case.tensors.has("in.key_padding_mask") {
        parts.push(part(case, "in.key_padding_mask", sizes, &[batch, 1, 1, keys]));
    }
    if case.config.flag("is_causal") && !case.tensors.has("in.attn_mask") {
        assert_eq!(queries, keys, "causal self attention");
        parts.push(Part::CausalFromStart);
    }
    parts
}

fn compare_output<B: Size, S: Size, M: Size, E: Float>(
    case: &Case,
    how: &str,
    y: &Tensor<(Batch<B>, Seq<S>, Model<M>), E>,
) -> Result<(), String> {
    let name = format!("output ({how})");
    let (rtol, atol) = tolerance::<E>();
    if case.name.starts_with("row_all_masked") {
        let (output, _) = by_rule(case);
        close(&name, &widened(&y.to_vec()), &output, rtol, atol)?;
        return rows_without_keys_are_the_bias::<E>(case, &widened(&y.to_vec()));
    }
    let want = case.tensors.f64("out64.output");
    close(&name, &in_order(case, y), &want, rtol, atol)
}

fn compare_weights<B: Size, H: Static, Q: Size, K: Size, E: Float>(
    case: &Case,
    how: &str,
    weights: &Tensor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
) -> Result<(), String> {
    let name = format!("weights ({how})");
    let (rtol, atol) = tolerance::<E>();
    if case.name.starts_with("row_all_masked") {
        return close(&name, &widened(&weights.to_vec()), &by_rule(case).1, rtol, atol);
    }
    if !case.tensors.has("out64.weights") {
        return Ok(());
    }
    let averaged = case.config.flag("average_attn_weights");
    let got = if averaged { weights.mean(Heads).to_vec() } else { weights.to_vec() };
    // PyTorch also returns the weights of the keys that it adds behind the others.
    let all = *case.tensors.dims("out64.weights").last().unwrap();
    let want: Vec<f64> = case
        .tensors
        .f64("out64.weights")
        .chunks(all)
        .flat_map(|row| &row[..weights.shape().3.0.get()])
        .copied()
        .collect();
    close(&name, &widened(&got), &want, rtol, atol)
}

/// The output and the weights by plain loops, in which a query that sees no key
/// contributes 0 before the output projection: PyTorch has NaN there.
fn by_rule(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let sizes = sizes(case);
    let (heads, width) = (sizes.heads, sizes.heads * sizes.dim);
    let [q, k, v] = projections(case, "param.");
    let [key, value] = sources(case);
    let projected = |source: &str, of: &Projection, length: usize| {
        let input = *case.tensors.dims(source).last().unwrap();
        let rows = batch_first(case, source);
        let y = oracle::linear(&rows, &of.weight, of.bias.as_deref(), input);
        oracle::exchanged(&y, [length, heads, sizes.dim])
    };
    let q = projected("in.query", &q, sizes.queries);
    let k = projected(key, &k, sizes.keys);
    let v = projected(value, &v, sizes.keys);
    let (y, weights) = oracle::attention(sizes, [&q, &k, &v], None, &parts(case));
    let merged = oracle::exchanged(&y, [heads, sizes.queries, sizes.dim]);
    let (weight, bias) =
        (case.tensors.f64("param.out_proj.weight"), optional(case, "param.out_proj.bias"));
    (oracle::linear(&merged, &weight, bias.as_deref(), width), weights)
}

/// The elements in the order (B,L,E).
fn batch_first(case: &Case, name: &str) -> Vec<f64> {
    let (values, dims) = (case.tensors.f64(name), case.tensors.dims(name));
    match *dims {
        [length, batch, width] if !case.config.flag("batch_first") => {
            oracle::exchanged(&values, [length, batch, width])
        }
        _ => values,
    }
}

fn rows_without_keys_are_the_bias<E: Float>(case: &Case, output: &[f64]) -> Result<(), String> {
    let (sizes, parts) = (sizes(case), parts(case));
    let width = sizes.heads * sizes.dim;
    let bias = optional(case, "param.out_proj.bias").unwrap_or_else(|| vec![0.0; width]);
    let mut found = 0;
    for b in 0..sizes.batch {
        for i in 0..sizes.queries {
            let shown = |at| parts.iter().all(|part| part.shows(sizes, at));
            let heads_and_keys =
                (0..sizes.heads).flat_map(|h| (0..sizes.keys).map(move |j| (h, j)));
            if heads_and_keys.map(|(h, j)| [b, h, i, j]).any(shown) {
                continue;
            }
            found += 1;
            let row = &output[(b * sizes.queries + i) * width..][..width];
            // The bias itself, rounded to the element.
            let bias = widened(&narrowed::<E>(&bias));
            close(&format!("row {i} of sample {b}, which sees nothing"), row, &bias, 0.0, 1e-7)?;
        }
    }
    if found == 0 { Err("no row is all masked".into()) } else { Ok(()) }
}
