//! The ONNX standard's own cases of Attention: masks of every rank, causal and windows by past keys and
//! by lengths, caps, grouped heads, the scores at every stage.
//!
//! Heads and widths are types, so they are dispatched over a closed list; batch and lengths are read at
//! run time. `SHAPEPROOF_FIXTURES` names another folder of such files.

use safetensors::Dtype;
use shapeproof::{
    Attention, Batch, Causal, DivisibleBy, Float, HeadDim, Heads, Key, KvHeads, Mask, Query, Size,
    SlidingWindow, Stage, Static, Tensor, ValueDim, dispatch, dyn_size,
};

use crate::fixtures::{Case, Family, Report, Run, close};
use crate::masks::{Over, Part, Scores, Sizes, Typed, joined, narrowed, widened};
use crate::onnx::{in_its_elements, tolerance};

#[test]
fn attention_is_what_onnx_defines() {
    Report::run("forward", &Family::onnx("Attention"), check);
}

fn check(case: &Case) -> Result<Run, String> {
    let unread = |name: &&str| {
        let known = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"];
        !known.contains(name) && !name.starts_with("expected.")
    };
    if let Some(name) = case.tensors.names().find(unread) {
        return Err(format!("the runner does not know the input {name:?}"));
    }
    in_its_elements!(case, "Q", check_in).map(|()| Run::Passed)
}

fn check_in<E: Float>(case: &Case) -> Result<(), String> {
    let sizes = sizes(case);
    dispatch!((sizes.heads, sizes.kv_heads, sizes.dim, sizes.value) as (H, G, D, V) in [
        (1, 1, 1, 1), (1, 1, 8, 8), (2, 2, 8, 8), (3, 3, 4, 4), (3, 3, 8, 8), (3, 3, 8, 10),
        (4, 1, 8, 6), (4, 2, 8, 6), (4, 2, 8, 8), (9, 3, 8, 8)
    ] => attend::<H, G, D, V, E>(case, sizes))
    .map_err(|error| error.to_string())?
}

/// The sizes; `keys` counts past keys too.
fn sizes(case: &Case) -> Sizes {
    let [q, k, v] = ["Q", "K", "V"].map(|name| case.tensors.dims(name));
    let count = |name: &str| case.config.maybe_usize(name).unwrap_or(1);
    let past = if case.tensors.has("past_key") { case.tensors.dims("past_key")[2] } else { 0 };
    let (batch, keys) = (q[0], past + k[k.len() - 2]);
    if q.len() == 3 {
        let (heads, kv_heads) = (count("q_num_heads"), count("kv_num_heads"));
        let (dim, value) = (q[2] / heads, v[2] / kv_heads);
        return Sizes { batch, heads, kv_heads, queries: q[1], keys, dim, value };
    }
    Sizes { batch, heads: q[1], kv_heads: k[1], queries: q[2], keys, dim: q[3], value: v[3] }
}

/// The values of an input over (batch, heads, positions, width), whether it comes so or with the heads
/// merged, with those of the past before them.
fn by_head<E: Float>(case: &Case, name: &str, past: Option<&str>, heads: usize) -> Vec<E> {
    let (values, dims) = (case.tensors.f64(name), case.tensors.dims(name));
    let (batch, len) = (dims[0], dims[dims.len() - 2]);
    let width = values.len() / (batch * len * heads);
    let past = past.filter(|past| case.tensors.has(past));
    let before = past.map_or(0, |past| case.tensors.dims(past)[2]);
    let past = past.map_or(Vec::new(), |past| case.tensors.f64(past));
    let mut out = Vec::new();
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        out.extend(&past[(b * heads + h) * before * width..][..before * width]);
        for i in 0..len {
            let row = match dims.len() {
                3 => (b * len + i) * heads + h,
                _ => (b * heads + h) * len + i,
            };
            out.extend(&values[row * width..][..width]);
        }
    }
    narrowed(&out)
}

fn attend<H, G, D, V, E>(case: &Case, sizes: Sizes) -> Result<(), String>
where
    H: DivisibleBy<G>,
    G: Static,
    D: Static,
    V: Static,
    E: Float,
{
    dyn_size!(batch = sizes.batch, queries = sizes.queries, keys = sizes.keys);
    let (batch, heads, groups) = (Batch(batch), Heads(H::default()), KvHeads(G::default()));
    let (query, key) = (Query(queries), Key(keys));
    let (dim, value) = (HeadDim(D::default()), ValueDim(V::default()));
    let q = by_head::<E>(case, "Q", None, H::N);
    let q = Tensor::try_from_vec((batch, heads, query, dim), q).unwrap();
    let k = by_head::<E>(case, "K", Some("past_key"), G::N);
    let k = Tensor::try_from_vec((batch, groups, key, dim), k).unwrap();
    let v = by_head::<E>(case, "V", Some("past_value"), G::N);
    let v = Tensor::try_from_vec((batch, groups, key, value), v).unwrap();
    let parts = masks(case, sizes, (batch, heads, query, key));

    let mut attention = Attention::new().softcap(case.config.maybe_float("softcap").unwrap_or(0.0));
    if let Some(scale) = case.config.maybe_float("scale") {
        attention = attention.scale(scale);
    }
    let y = attention.apply(&q, &k, &v, joined(&parts));
    let (beside, weights) = attention.apply_with_weights(&q, &k, &v, joined(&parts));
    for (how, y) in [("alone", y), ("beside its weights", beside)] {
        let y = match case.tensors.dims("expected.Y").len() {
            3 => y.transpose(Heads, Query).to_vec(),
            _ => y.to_vec(),
        };
        compare(case, &format!("Y ({how})"), "expected.Y", &y)?;
    }
    for (name, present) in [("present_key", k.to_vec()), ("present_value", v.to_vec())] {
        compare(case, name, &format!("expected.{name}"), &present)?;
    }
    let name = "expected.qk_matmul_output";
    let stage = match case.config.maybe_int("qk_matmul_output_mode").unwrap_or(0) {
        0 => Stage::Product,
        1 => Stage::Capped,
        2 => Stage::Masked,
        3 => return compare(case, "weights", name, &weights.to_vec()),
        mode => return Err(format!("qk_matmul_output_mode {mode}")),
    };
    compare(case, "scores", name, &attention.scores(&q, &k, joined(&parts), stage).to_vec())
}

fn compare<E: Float>(case: &Case, name: &str, expected: &str, got: &[E]) -> Result<(), String> {
    match case.tensors.has(expected) {
        true => {
            let (want, allowed) = (case.tensors.f64(expected), tolerance::<E>());
            close(name, &widened(got), &want, allowed, allowed)
        }
        false => Ok(()),
    }
}

/// The mask that is given, causality and windows, and the lengths of the samples.
fn masks<'a, B: Size + 'a, H: Size + 'a, Q: Size + 'a, K: Size + 'a, E: Float>(
    case: &Case,
    sizes: Sizes,
    shape @ (batch, _, _, key): Scores<B, H, Q, K>,
) -> Vec<Typed<'a, B, H, Q, K, E>> {
    let mut parts: Vec<Typed<'a, B, H, Q, K, E>> = Vec::new();
    if case.tensors.has("attn_mask") {
        parts.push(given(case, sizes).typed(shape));
    }
    // Queries stand at the start, behind the past keys, or at the end of what a sample has.
    let past = if case.tensors.has("past_key") { case.tensors.dims("past_key")[2] } else { 0 };
    let lengths =
        case.tensors.has("nonpad_kv_seqlen").then(|| case.tensors.i64("nonpad_kv_seqlen"));
    let as_i64 = |n: usize| i64::try_from(n).unwrap();
    let starts: Vec<i64> = match &lengths {
        Some(lengths) => lengths.iter().map(|length| length - as_i64(sizes.queries)).collect(),
        None => vec![as_i64(past); sizes.batch],
    };
    let starts = Tensor::try_from_vec((batch,), starts).unwrap();
    let causal = case.config.maybe_int("is_causal").unwrap_or(0) != 0;
    let side = |name: &str| {
        let width = case.config.maybe_int(name).unwrap_or(-1);
        usize::try_from(width).unwrap_or(usize::MAX)
    };
    let (left, right) = (side("left_window_size"), side("right_window_size"));
    let window = SlidingWindow::beside(left, right).at(&starts);
    match (causal, (left, right) == (usize::MAX, usize::MAX)) {
        (true, true) => parts.push(Box::new(Causal.at(&starts))),
        (false, true) => {}
        (true, false) => parts.push(Box::new(window & Causal.at(&starts))),
        (false, false) => parts.push(Box::new(window)),
    }
    if let Some(lengths) = lengths {
        let lengths = lengths.into_iter().map(|length| usize::try_from(length).unwrap()).collect();
        let lengths = Tensor::try_from_vec((batch,), lengths).unwrap();
        parts.push(Box::new(Mask::try_lengths(&lengths, key).unwrap()));
    }
    parts
}

/// The mask of the case; keys that it is too short for may not be seen.
fn given(case: &Case, sizes: Sizes) -> Part {
    let (name, mut dims) = ("attn_mask", case.tensors.dims("attn_mask").to_vec());
    let last = dims.len() - 1;
    let (len, missing) = (dims[last], sizes.keys - dims[last]);
    dims[last] = sizes.keys;
    fn padded<T: Copy>(values: &[T], len: usize, missing: usize, hidden: T) -> Vec<T> {
        let rows = values.chunks(len.max(1));
        rows.flat_map(|row| row.iter().copied().chain(vec![hidden; missing])).collect()
    }
    match case.tensors.dtype(name) {
        Dtype::BOOL => {
            let values = padded(&case.tensors.bools(name), len, missing, false);
            Part::Keep(Over::matched(sizes, &dims, &values))
        }
        _ => {
            let values = padded(&case.tensors.f64(name), len, missing, f64::NEG_INFINITY);
            Part::Bias(Over::matched(sizes, &dims, &values))
        }
    }
}
