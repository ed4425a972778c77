//! PyTorch's `scaled_dot_product_attention`, forward and backward: every case of the family
//! `sdpa`, grouped heads included.
//!
//! There `true` in a mask takes part, and causal is aligned to the start.

use safetensors::Dtype;
use shapeproof::{
    Attention, Axis, Batch, DivisibleBy, Float, HeadDim, Heads, Key, KvHeads, KvOf, Mode,
    Parameter, Query, Size, Static, Tensor, Train, ValueDim, bf16, dispatch, dyn_size, f16,
};

use crate::fixtures::{Case, Family, Report, Run, close};
use crate::masks::{Over, Part, Sizes, joined, learned, widened};
use crate::torch::{known_inputs, loss, tensor, tolerance};

#[test]
fn scaled_dot_product_attention_is_what_pytorch_computes_in_f32() {
    Report::run("in f32", &Family::open("torch/sdpa"), check::<f32>);
}

#[test]
fn scaled_dot_product_attention_is_what_pytorch_computes_in_f64() {
    Report::run("in f64", &Family::open("torch/sdpa"), check::<f64>);
}

#[test]
fn scaled_dot_product_attention_is_what_pytorch_computes_in_f16() {
    Report::run("in f16", &Family::open("torch/sdpa"), check::<f16>);
}

#[test]
fn scaled_dot_product_attention_is_what_pytorch_computes_in_bf16() {
    Report::run("in bf16", &Family::open("torch/sdpa"), check::<bf16>);
}

fn check<E: Float>(case: &Case) -> Result<Run, String> {
    known_inputs(case, &["q", "k", "v", "attn_mask"])?;
    let sizes = sizes(case);
    dispatch!((sizes.heads, sizes.kv_heads, sizes.dim, sizes.value) as (H, G, D, V) in [
        (3, 3, 5, 5), (3, 3, 3, 3), (3, 3, 5, 7), (4, 2, 3, 3), (4, 1, 3, 3), (4, 2, 3, 7),
        (2, 2, 5, 5), (4, 4, 4, 4), (2, 2, 5, 2), (6, 3, 3, 3), (6, 1, 3, 3), (6, 3, 3, 2)
    ] => heads_and_widths::<H, G, D, V, E>(case, sizes))
    .map_err(|error| error.to_string())??;
    Ok(Run::Passed)
}

fn sizes(case: &Case) -> Sizes {
    let size = |name| case.config.usize(name);
    Sizes {
        batch: size("batch"),
        heads: size("heads"),
        kv_heads: size("kv_heads"),
        queries: size("query_len"),
        keys: size("key_len"),
        dim: size("head_dim"),
        value: size("value_dim"),
    }
}

/// Every way to name the axes of this case: equal heads are also a group each, values
/// as wide as keys also have their axis.
fn heads_and_widths<H, G, D, V, E>(case: &Case, sizes: Sizes) -> Result<(), String>
where
    H: DivisibleBy<G>,
    G: Static,
    D: Static,
    V: Static,
    E: Float,
{
    let grouped = KvHeads(G::default());
    attend::<H, _, D, _, E>(case, sizes, grouped, ValueDim(V::default()), "grouped")?;
    if D::N == V::N {
        attend::<H, _, D, _, E>(case, sizes, grouped, HeadDim(V::default()), "grouped, one width")?;
    }
    if H::N == G::N {
        let heads = Heads(H::default());
        attend::<H, _, D, _, E>(case, sizes, heads, ValueDim(V::default()), "equal heads")?;
        attend::<H, _, D, _, E>(
            case,
            sizes,
            heads,
            HeadDim(V::default()),
            "equal heads, one width",
        )?;
    }
    Ok(())
}

fn attend<H, KV, D, V, E>(
    case: &Case,
    sizes: Sizes,
    kv_heads: KV,
    value: V,
    how: &str,
) -> Result<(), String>
where
    H: Static,
    KV: KvOf<Heads<H>>,
    D: Static,
    V: Axis,
    E: Float,
{
    dyn_size!(batch = sizes.batch, queries = sizes.queries, keys = sizes.keys);
    let (batch, heads, query, key) = (Batch(batch), Heads(H::default()), Query(queries), Key(keys));
    let dim = HeadDim(D::default());
    let q = tensor::<_, E>(case, "in.q", (batch, heads, query, dim));
    let k = tensor(case, "in.k", (batch, kv_heads, key, dim));
    let v = tensor(case, "in.v", (batch, kv_heads, key, value));
    let parts = parts(case, sizes);
    let typed: Vec<_> = parts.iter().map(|part| part.typed((batch, heads, query, key))).collect();

    let scale = case.config.maybe_float("scale");
    let attention = scale.map_or(Attention::new(), |scale| Attention::new().scale(scale));
    let y = attention.apply(&q, &k, &v, joined(&typed));
    let (beside, weights) = attention.apply_with_weights(&q, &k, &v, joined(&typed));

    let want = case.tensors.f64("out64.output");
    let (rtol, atol) = tolerance::<E>();
    for (what, y) in [("alone", &y), ("beside its weights", &beside)] {
        close(&format!("output {what} ({how})"), &widened(&y.to_vec()), &want, rtol, atol)?;
    }
    rows_are_probabilities(&weights, &parts, sizes)?;

    let (of_q, of_k, of_v) = (Parameter::new(q), Parameter::new(k), Parameter::new(v));
    let mut train = Train::seeded(0);
    let (q, k, v) = (train.read(&of_q), train.read(&of_k), train.read(&of_v));
    let mut of_masks = Vec::new();
    let typed: Vec<_> = parts
        .iter()
        .map(|part| match part {
            Part::Bias(bias) if case.tensors.has("grad64.attn_mask") => {
                let (id, mask) = learned(bias, (batch, heads, query, key), &mut train);
                of_masks.push(id);
                mask
            }
            _ => part.typed((batch, heads, query, key)),
        })
        .collect();
    let y = attention.apply(&q, &k, &v, joined(&typed));
    let gradients = train.backward(&loss(case, &y));
    let mut found = vec![
        ("q", widened(&gradients.of(&of_q).to_vec())),
        ("k", widened(&gradients.of(&of_k).to_vec())),
        ("v", widened(&gradients.of(&of_v).to_vec())),
    ];
    let of_mask = |id| gradients.find(id).unwrap().to::<f64>().to_vec();
    found.extend(of_masks.into_iter().map(|id| ("attn_mask", of_mask(id))));
    let asked = case.tensors.names().filter(|name| name.starts_with("grad64.")).count();
    if asked != found.len() {
        return Err(format!("{asked} gradients, of which {} are compared", found.len()));
    }
    for (name, found) in found {
        let want = case.tensors.f64(&format!("grad64.{name}"));
        close(&format!("gradient of {name} ({how})"), &found, &want, rtol, atol)?;
    }
    Ok(())
}

/// Weights sum to one in every row, and are exactly 0 for what is hidden.
fn rows_are_probabilities<B: Size, H: Static, Q: Size, K: Size, E: Float>(
    weights: &Tensor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
    parts: &[Part],
    sizes: Sizes,
) -> Result<(), String> {
    for at in crate::masks::indices(Sizes { keys: 1, ..sizes }) {
        let [b, h, i, _] = at;
        let row: Vec<f64> =
            (0..sizes.keys).map(|j| weights.try_at(&[b, h, i, j]).unwrap().to_f64()).collect();
        let shown = |j: &usize| parts.iter().all(|part| part.shows(sizes, [b, h, i, *j]));
        let hidden_weighs = (0..sizes.keys).filter(|j| !shown(j)).any(|j| row[j] != 0.0);
        let sum: f64 = row.iter().sum();
        let want = if (0..sizes.keys).any(|j| shown(&j)) { 1.0 } else { 0.0 };
        // Each weight of a half type is rounded.
        let allowed = if E::NAME.ends_with("16") { tolerance::<E>().0 } else { 1e-6 };
        if hidden_weighs || (sum - want).abs() > allowed {
            return Err(format!("weights of row {:?}: {row:?}", [b, h, i]));
        }
    }
    Ok(())
}

fn parts(case: &Case, sizes: Sizes) -> Vec<Part> {
    let mut parts = Vec::new();
    if case.config.flag("is_causal") {
        parts.push(Part::CausalFromStart);
    }
    let name = "in.attn_mask";
    if case.tensors.has(name) {
        let dims = case.tensors.dims(name);
        parts.push(match case.tensors.dtype(name) {
            Dtype::BOOL => Part::Keep(Over::matched(sizes, dims, &case.tensors.bools(name))),
            _ => Part::Bias(Over::matched(sizes, dims, &case.tensors.f64(name))),
        });
    }
    parts
}
