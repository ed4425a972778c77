//! The ONNX standard's own cases of LayerNormalization, RMSNormalization and Softmax.

use safetensors::Dtype;
use shapeproof::{Batch, Model, Tensor, dyn_size};

use crate::fixtures::{Case, Family, Report, Run, close, skip};
use crate::masks::{narrowed, widened};
use crate::torch_norms::{Norm, norm_over_last, softmax_along};

/// Both relative and absolute, for float32.
const TOLERANCE: f64 = 1e-5;

#[test]
fn layer_normalization_is_what_onnx_defines() {
    Report::run("forward", &Family::onnx("LayerNormalization"), layer_normalization);
}

#[test]
fn rms_normalization_is_what_onnx_defines() {
    Report::run("forward", &Family::onnx("RMSNormalization"), rms_normalization);
}

#[test]
fn softmax_is_what_onnx_defines() {
    Report::run("forward", &Family::onnx("Softmax"), softmax);
}

fn layer_normalization(case: &Case) -> Result<Run, String> {
    let norm = match norm(case, "Scale", true)? {
        Some(norm) => norm,
        None => return skip(format!("{:?} is not part yet", case.tensors.dtype("X"))),
    };
    moments(case, &norm)?;
    Ok(Run::Passed)
}

fn rms_normalization(case: &Case) -> Result<Run, String> {
    match norm(case, "scale", false)? {
        Some(_) => Ok(Run::Passed),
        None => skip(format!("{:?} is not part yet", case.tensors.dtype("X"))),
    }
}

/// A norm, compared with what is expected of it; `None` where it is not of f32.
fn norm(case: &Case, scale: &str, centered: bool) -> Result<Option<Norm<f32>>, String> {
    if case.tensors.dtype("X") != Dtype::F32 {
        return Ok(None);
    }
    let dims = case.tensors.dims("X").to_vec();
    let at = axis(case, dims.len())?;
    for name in [scale, "B"].into_iter().filter(|name| case.tensors.has(name)) {
        if case.tensors.dims(name) != &dims[at..] {
            return Err(format!("{name} over {:?} for X over {dims:?}", case.tensors.dims(name)));
        }
    }
    let values = |name: &str| case.tensors.has(name).then(|| case.tensors.f32(name));
    let norm = Norm {
        centered,
        trailing: dims.len() - at,
        x: case.tensors.f32("X"),
        weight: values(scale),
        bias: values("B"),
        epsilon: case.config.maybe_float("epsilon").unwrap_or(1e-5),
        dims,
    };
    for (how, y) in norm_over_last(&norm) {
        let want = case.tensors.f64("expected.Y");
        close(&format!("Y ({how})"), &y, &want, TOLERANCE, TOLERANCE)?;
    }
    Ok(Some(norm))
}

/// The optional outputs, from the reductions that the norm is made of.
fn moments(case: &Case, norm: &Norm<f32>) -> Result<(), String> {
    let (lead, tail) = norm.dims.split_at(norm.dims.len() - norm.trailing);
    dyn_size!(rows = lead.iter().product(), width = tail.iter().product());
    let x = Tensor::try_from_vec((Batch(rows), Model(width)), norm.x.clone()).unwrap();
    let root = x.variance(Model).add_scalar(norm.epsilon).sqrt();
    let outputs = [("Mean", x.mean(Model)), ("InvStdDev", root.pow_scalar(-1.0))];
    for (name, got) in outputs {
        let expected = format!("expected.{name}");
        if case.tensors.has(&expected) {
            let want = case.tensors.f64(&expected);
            close(name, &got.to_vec(), &want, TOLERANCE, TOLERANCE)?;
        }
    }
    Ok(())
}

fn softmax(case: &Case) -> Result<Run, String> {
    if case.tensors.dtype("input") != Dtype::F32 {
        return skip(format!("{:?} is not part yet", case.tensors.dtype("input")));
    }
    if case.entry.usize("since_version") < 13 {
        return skip("before version 13 softmax ran over all axes from one on");
    }
    let axis = case.config.maybe_int("axis").unwrap_or(-1);
    let dims = case.tensors.dims("input");
    let x = case.tensors.f64("input");
    for (how, y) in softmax_along::<f32>("softmax", dims, axis, &narrowed(&x)) {
        let want = case.tensors.f64("expected.output");
        close(&format!("output ({how})"), &widened(&y), &want, TOLERANCE, TOLERANCE)?;
    }
    Ok(Run::Passed)
}

/// The attribute `axis`, −1 where it is left out, counted from the front.
fn axis(case: &Case, rank: usize) -> Result<usize, String> {
    let axis = case.config.maybe_int("axis").unwrap_or(-1);
    let rank = i64::try_from(rank).map_err(|error| error.to_string())?;
    let from_front = if axis < 0 { axis + rank } else { axis };
    let inside = (0..rank).contains(&from_front);
    let at = usize::try_from(from_front).ok().filter(|_| inside);
    at.ok_or_else(|| format!("axis {axis} of a tensor with {rank}"))
}
