//! PyTorch's `TransformerEncoderLayer`, `TransformerEncoder` and
//! `TransformerDecoderLayer`, forward and backward: every case of the family `layers`.

use shapeproof::{
    Activation, AttentionBias, Batch, Bias, Decoder, DecoderLayer, DivisibleBy, Encoder,
    EncoderConfig, EncoderLayer, FeedForward, Float, Gradients, Heads, Infer, Key, LayerNorm, Mode,
    Model, Module, MultiHeadAttention, NoBias, NormPlacement, Parameter, Query, Seq, Size, Static,
    Tensor, Train, bf16, dispatch, dyn_size, f16, parameters,
};

use crate::fixtures::{Case, Family, Report, Run, close};
use crate::masks::{Part, Sizes, joined, narrowed, widened};
use crate::oracle;
use crate::torch::{
    Projection, known_inputs, loss, optional, part, projections, set, tensor, tolerance,
};

#[test]
fn encoders_and_decoders_are_what_pytorch_computes_in_f32() {
    Report::run("in f32", &Family::open("torch/layers"), check::<f32>);
}

#[test]
fn encoders_and_decoders_are_what_pytorch_computes_in_f64() {
    Report::run("in f64", &Family::open("torch/layers"), check::<f64>);
}

#[test]
fn encoders_and_decoders_are_what_pytorch_computes_in_f16() {
    Report::run("in f16", &Family::open("torch/layers"), check::<f16>);
}

#[test]
fn encoders_and_decoders_are_what_pytorch_computes_in_bf16() {
    Report::run("in bf16", &Family::open("torch/layers"), check::<bf16>);
}

fn check<E: Float>(case: &Case) -> Result<Run, String> {
    let decoder = match case.config.text("kind") {
        "encoder" => false,
        "decoder" => true,
        other => return Err(format!("unknown kind {other:?}")),
    };
    let mut known = vec!["src", "key_padding_mask", "attn_mask"];
    known.extend(["tgt", "memory", "memory_key_padding_mask"].into_iter().filter(|_| decoder));
    known_inputs(case, &known)?;
    let sizes = ["d_model", "heads", "ff"].map(|name| case.config.usize(name));
    dispatch!((sizes[0], sizes[1], sizes[2]) as (M, H, F) in [
        (6, 2, 10), (8, 4, 7), (6, 3, 8), (4, 2, 11)
    ] => match (decoder, case.config.flag("bias")) {
        (false, true) => encode::<M, H, F, Bias, E>(case),
        (false, false) => encode::<M, H, F, NoBias, E>(case),
        (true, true) => decode::<M, H, F, Bias, E>(case),
        (true, false) => decode::<M, H, F, NoBias, E>(case),
    })
    .map_err(|error| error.to_string())??;
    Ok(Run::Passed)
}

fn encode<M, H, F, B, E>(case: &Case) -> Result<(), String>
where
    M: DivisibleBy<H>,
    H: Static,
    F: Static,
    B: AttentionBias,
    E: Float,
{
    let (batch, length) = (case.config.usize("batch"), case.config.usize("length"));
    let sizes = Sizes::new(batch, H::N, length, length, M::N / H::N);
    dyn_size!(batch = batch, length = length);
    let shape = (Batch(batch), Seq(length), Model(M::default()));
    let x = tensor(case, "in.src", shape);
    let scores = (Batch(batch), Heads(H::default()), Query(length), Key(length));
    let parts: Vec<_> = parts(case, sizes).iter().map(|part| part.typed(scores)).collect();

    let encoder = encoder::<M, H, F, B, E>(case)?;
    let y = encoder.forward(&x, joined(&parts), &mut Infer);
    compare(case, "encoder", &y)?;
    let (of_x, mut train) = (Parameter::new(x.clone()), Train::seeded(0));
    let y = encoder.forward(&train.read(&of_x), joined(&parts), &mut train);
    compare(case, "encoder, in training", &y)?;
    let gradients = train.backward(&loss(case, &y));
    let alone = case.tensors.has("param.linear1.weight");
    let own = if alone { "layers.0." } else { "" };
    let of_inputs = [("src", widened(&gradients.of(&of_x).to_vec()))];
    compare_gradients::<E>(case, &encoder, (&gradients, own), &of_inputs)?;
    if case.config.usize("layers") == 1 && !case.config.flag("final_norm") {
        let layer = layer::<M, H, F, B, E>(case, &prefix(case, 0))?;
        compare(case, "layer", &layer.forward(&x, joined(&parts), &mut Infer))?;
        let (y, _) = layer.forward_with_weights(&x, joined(&parts), &mut Infer);
        compare(case, "layer, with weights", &y)?;
    }
    Ok(())
}

fn decode<M, H, F, B, E>(case: &Case) -> Result<(), String>
where
    M: DivisibleBy<H>,
    H: Static,
    F: Static,
    B: AttentionBias,
    E: Float,
{
    let [batch, length, seen] =
        ["batch", "length", "memory_len"].map(|name| case.config.usize(name));
    let sizes = Sizes::new(batch, H::N, length, length, M::N / H::N);
    let cross = Sizes::new(batch, H::N, length, seen, M::N / H::N);
    dyn_size!(batch = batch, length = length, seen = seen);
    let model = Model(M::default());
    let x = tensor(case, "in.tgt", (Batch(batch), Seq(length), model));
    let memory = tensor(case, "in.memory", (Batch(batch), Seq(seen), model));
    let heads = Heads(H::default());
    let scores = (Batch(batch), heads, Query(length), Key(length));
    // That self attention is causal is the layer's own business.
    assert!(case.config.flag("causal"));
    let own = parts(case, sizes).into_iter().filter(|part| !matches!(part, Part::Causal));
    let own: Vec<_> = own.map(|part| part.typed(scores)).collect();
    let mut of_memory = Vec::new();
    if case.tensors.has("in.memory_key_padding_mask") {
        let dims = [batch.get(), 1, 1, seen.get()];
        let part = part(case, "in.memory_key_padding_mask", cross, &dims);
        of_memory.push(part.typed((Batch(batch), heads, Query(length), Key(seen))));
    }
    let layer = decoder_layer::<M, H, F, B, E>(case)?;
    let y = layer.forward(&x, &memory, joined(&own), joined(&of_memory), &mut Infer);
    compare(case, "decoder layer", &y)?;
    let (of_x, of_memory_of) = (Parameter::new(x.clone()), Parameter::new(memory.clone()));
    let mut train = Train::seeded(0);
    let (x_read, memory_read) = (train.read(&of_x), train.read(&of_memory_of));
    let y = layer.forward(&x_read, &memory_read, joined(&own), joined(&of_memory), &mut train);
    compare(case, "decoder layer, in training", &y)?;
    let gradients = train.backward(&loss(case, &y));
    let of_inputs = [
        ("tgt", widened(&gradients.of(&of_x).to_vec())),
        ("memory", widened(&gradients.of(&of_memory_of).to_vec())),
    ];
    compare_gradients::<E>(case, &layer, (&gradients, ""), &of_inputs)?;
    let stack = Decoder::new(vec![layer]);
    let y = stack.forward(&x, &memory, joined(&own), joined(&of_memory), &mut Infer);
    compare(case, "decoder", &y)
}

fn compare<B: Size, S: Size, M: Size, E: Float>(
    case: &Case,
    how: &str,
    y: &Tensor<(Batch<B>, Seq<S>, Model<M>), E>,
) -> Result<(), String> {
    let (rtol, atol) = tolerance::<E>();
    let want = case.tensors.f64("out64.output");
    close(&format!("output ({how})"), &widened(&y.to_vec()), &want, rtol, atol)
}

/// Compares every gradient of the case. The names of what a layer has begin with `prefix` here.
fn compare_gradients<E: Float>(
    case: &Case,
    module: &impl Module,
    (gradients, prefix): (&Gradients, &str),
    of_inputs: &[(&str, Vec<f64>)],
) -> Result<(), String> {
    let listed = parameters(module);
    let of_parameter = |name: &String| {
        let (_, parameter) = listed.iter().find(|(own, _)| own == name).expect(name);
        let found = gradients.find(parameter.id()).expect(name).to::<f64>();
        let [inputs, outputs] = *found.dims() else { return found.to_vec() };
        // Theirs is over (out, in).
        oracle::exchanged(&found.to_vec(), [inputs, outputs, 1])
    };
    let (rtol, atol) = tolerance::<E>();
    let decoder = case.config.text("kind") == "decoder";
    for key in case.tensors.names().filter(|key| key.starts_with("grad64.")) {
        let name = &key["grad64.".len()..];
        let of_input = of_inputs.iter().find(|(input, _)| *input == name);
        let found = match of_input {
            Some((_, found)) => found.clone(),
            None => own_names(name, prefix, decoder).iter().flat_map(of_parameter).collect(),
        };
        let want = case.tensors.f64(key);
        // A tensor's gradient is as exact as its largest element.
        let largest = want.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
        close(&format!("gradient of {name}"), &found, &want, rtol, atol * largest)?;
    }
    Ok(())
}

/// What this library calls a parameter of PyTorch's; what is packed there is three here.
fn own_names(name: &str, prefix: &str, decoder: bool) -> Vec<String> {
    let second = if decoder { "cross_attention_norm" } else { "feed_forward_norm" };
    let renamed = [
        ("self_attn", "attention"),
        ("multihead_attn", "cross_attention"),
        ("linear1", "feed_forward.up"),
        ("linear2", "feed_forward.down"),
        ("norm1", "attention_norm"),
        ("norm2", second),
        ("norm3", "feed_forward_norm"),
    ];
    let mut name = format!("{prefix}{name}");
    for (theirs, ours) in renamed {
        name = name.replace(theirs, ours);
    }
    match name.split_once("in_proj_") {
        None => vec![name],
        Some((start, kind)) => ["q", "k", "v"].map(|x| format!("{start}{x}_proj.{kind}")).to_vec(),
    }
}

/// The masks: `true` leaves out, causal is square.
fn parts(case: &Case, sizes: Sizes) -> Vec<Part> {
    let [batch, heads, length, _] = sizes.scores();
    let mut parts = Vec::new();
    if case.config.flag("causal") {
        parts.push(Part::Causal);
    }
    if case.tensors.has("in.key_padding_mask") {
        parts.push(part(case, "in.key_padding_mask", sizes, &[batch, 1, 1, length]));
    }
    if case.tensors.has("in.attn_mask") {
        let dims = case.tensors.dims("in.attn_mask");
        let by_head = [batch, heads, length, length];
        let dims = if dims.len() == 3 { &by_head } else { dims };
        parts.push(part(case, "in.attn_mask", sizes, dims));
    }
    parts
}

fn encoder<M, H, F, B, E>(case: &Case) -> Result<Encoder<M, H, F, B, E>, String>
where
    M: DivisibleBy<H>,
    H: Static,
    F: Static,
    B: AttentionBias,
    E: Float,
{
    let layers = (0..case.config.usize("layers")).map(|i| layer(case, &prefix(case, i)));
    let encoder = Encoder::new(layers.collect::<Result<_, _>>()?);
    if !case.config.flag("final_norm") {
        return Ok(encoder);
    }
    Ok(encoder.with_norm(norm(case, "param.norm")))
}

/// The prefix of the parameters of layer `i`: a single one may stand alone.
fn prefix(case: &Case, i: usize) -> String {
    let alone = case.tensors.has("param.linear1.weight");
    if alone { "param.".to_owned() } else { format!("param.layers.{i}.") }
}

fn layer<M, H, F, B, E>(case: &Case, prefix: &str) -> Result<EncoderLayer<M, H, F, B, E>, String>
where
    M: DivisibleBy<H>,
    H: Static,
    F: Static,
    B: AttentionBias,
    E: Float,
{
    let mut layer = EncoderLayer::zeros(config(case)?);
    set_attention(&mut layer.attention, case, &format!("{prefix}self_attn."));
    set_feed_forward(&mut layer.feed_forward, case, prefix);
    layer.attention_norm = norm(case, &format!("{prefix}norm1"));
    layer.feed_forward_norm = norm(case, &format!("{prefix}norm2"));
    Ok(layer)
}

fn decoder_layer<M, H, F, B, E>(case: &Case) -> Result<DecoderLayer<M, H, F, M, B, E>, String>
where
    M: DivisibleBy<H>,
    H: Static,
    F: Static,
    B: AttentionBias,
    E: Float,
{
    assert_eq!(case.config.usize("layers"), 1, "a single layer");
    let mut layer = DecoderLayer::zeros(config(case)?);
    set_attention(&mut layer.attention, case, "param.self_attn.");
    set_attention(&mut layer.cross_attention, case, "param.multihead_attn.");
    set_feed_forward(&mut layer.feed_forward, case, "param.");
    layer.attention_norm = norm(case, "param.norm1");
    layer.cross_attention_norm = norm(case, "param.norm2");
    layer.feed_forward_norm = norm(case, "param.norm3");
    Ok(layer)
}

fn config(case: &Case) -> Result<EncoderConfig, String> {
    Ok(EncoderConfig {
        norm: if case.config.flag("norm_first") { NormPlacement::Pre } else { NormPlacement::Post },
        activation: match case.config.text("activation") {
            "relu" => Activation::Relu,
            "gelu" => Activation::Gelu,
            other => return Err(format!("unknown activation {other:?}")),
        },
        ..EncoderConfig::new(case.config.float("layer_norm_eps"))
    })
}

fn set_attention<M: Static, H, B: AttentionBias, E: Float>(
    attention: &mut MultiHeadAttention<M, H, M, M, B, E>,
    case: &Case,
    prefix: &str,
) {
    let [q, k, v] = projections(case, prefix);
    set(&mut attention.q, &q);
    set(&mut attention.k, &k);
    set(&mut attention.v, &v);
    set(&mut attention.out, &projection(case, &format!("{prefix}out_proj")));
}

fn set_feed_forward<M: Static, F: Static, B: shapeproof::BiasKind, E: Float>(
    feed_forward: &mut FeedForward<M, F, B, E>,
    case: &Case,
    prefix: &str,
) {
    set(&mut feed_forward.up, &projection(case, &format!("{prefix}linear1")));
    set(&mut feed_forward.down, &projection(case, &format!("{prefix}linear2")));
}

fn projection(case: &Case, name: &str) -> Projection {
    Projection {
        weight: case.tensors.f64(&format!("{name}.weight")),
        bias: optional(case, &format!("{name}.bias")),
    }
}

/// A norm without a bias is one whose bias is 0.
fn norm<M: Static, E: Float>(case: &Case, name: &str) -> LayerNorm<Model<M>, E> {
    let mut norm = LayerNorm::new(case.config.float("layer_norm_eps"));
    let shape = (Model(M::default()),);
    let tensor = |values: &[f64]| Tensor::try_from_vec(shape, narrowed(values)).unwrap();
    norm.weight.set(tensor(&case.tensors.f64(&format!("{name}.weight"))));
    if let Some(bias) = optional(case, &format!("{name}.bias")) {
        norm.bias.set(tensor(&bias));
    }
    norm
}
