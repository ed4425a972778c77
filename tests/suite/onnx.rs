//! The ONNX standard's own cases of LayerNormalization, RMSNormalization and Softmax.

use shapeproof::{Batch, Float, Model, Tensor, dyn_size};

use crate::fixtures::{Case, Family, Report, Run, close, skip};
use crate::masks::{narrowed, widened};
use crate::torch_norms::{Norm, norm_over_last, softmax_along};

/// What is allowed, both relative and absolute: a few roundings of the element type.
pub(crate) fn tolerance<E: Float>() -> f64 {
    match E::NAME {
        "f16" => 2e-3,
        "bf16" => 1e-2,
        _ => 1e-5,
    }
}

/// Runs `$check::<E>($case)` in the elements of the input `$name`; f32 also rounded to both half types.
macro_rules! in_its_elements {
    ($case:expr, $name:literal, $check:ident) => {
        match $case.tensors.dtype($name) {
            safetensors::Dtype::F16 => $check::<shapeproof::f16>($case),
            safetensors::Dtype::BF16 => $check::<shapeproof::bf16>($case),
            _ => $check::<f32>($case)
                .and_then(|()| $check::<shapeproof::f16>($case))
                .and_then(|()| $check::<shapeproof::bf16>($case)),
        }
    };
}
pub(crate) use in_its_elements;

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
    fn check<E: Float>(case: &Case) -> Result<(), String> {
        moments(case, &norm::<E>(case, "Scale", true)?)
    }
    in_its_elements!(case, "X", check).map(|()| Run::Passed)
}

fn rms_normalization(case: &Case) -> Result<Run, String> {
    fn check<E: Float>(case: &Case) -> Result<(), String> {
        norm::<E>(case, "scale", false).map(drop)
    }
    in_its_elements!(case, "X", check).map(|()| Run::Passed)
}

/// A norm, compared with what is expected of it.
fn norm<E: Float>(case: &Case, scale: &str, centered: bool) -> Result<Norm<E>, String> {
    let dims = case.tensors.dims("X").to_vec();
    let at = axis(case, dims.len())?;
    for name in [scale, "B"].into_iter().filter(|name| case.tensors.has(name)) {
        if case.tensors.dims(name) != &dims[at..] {
            return Err(format!("{name} over {:?} for X over {dims:?}", case.tensors.dims(name)));
        }
    }
    let tensor = |name: &str| narrowed(&case.tensors.f64(name));
    let values = |name: &str| case.tensors.has(name).then(|| tensor(name));
    let norm = Norm {
        centered,
        trailing: dims.len() - at,
        x: tensor("X"),
        weight: values(scale),
        bias: values("B"),
        epsilon: case.config.maybe_float("epsilon").unwrap_or(1e-5),
        dims,
    };
    for (how, y) in norm_over_last(&norm) {
        let want = case.tensors.f64("expected.Y");
        let allowed = tolerance::<E>();
        close(&format!("Y ({how})"), &widened(&y), &want, allowed, allowed)?;
    }
    Ok(norm)
}

/// The optional outputs, from the reductions that the norm is made of.
fn moments<E: Float>(case: &Case, norm: &Norm<E>) -> Result<(), String> {
    let (lead, tail) = norm.dims.split_at(norm.dims.len() - norm.trailing);
    dyn_size!(rows = lead.iter().product(), width = tail.iter().product());
    let x = Tensor::try_from_vec((Batch(rows), Model(width)), norm.x.clone()).unwrap();
    let root = x.variance(Model).add_scalar(norm.epsilon).sqrt();
    let outputs = [("Mean", x.mean(Model)), ("InvStdDev", root.pow_scalar(-1.0))];
    for (name, got) in outputs {
        let expected = format!("expected.{name}");
        if case.tensors.has(&expected) {
            let want = case.tensors.f64(&expected);
            close(name, &widened(&got.to_vec()), &want, tolerance::<E>(), tolerance::<E>())?;
        }
    }
    Ok(())
}

fn softmax(case: &Case) -> Result<Run, String> {
    if case.entry.usize("opset") < 13 {
        return skip("before version 13 softmax ran over all axes from one on");
    }
    fn check<E: Float>(case: &Case) -> Result<(), String> {
        let axis = case.config.maybe_int("axis").unwrap_or(-1);
        let dims = case.tensors.dims("input");
        let x = case.tensors.f64("input");
        for (how, y) in softmax_along::<E>("softmax", dims, axis, &narrowed(&x)) {
            let (want, allowed) = (case.tensors.f64("expected.output"), tolerance::<E>());
            close(&format!("output ({how})"), &widened(&y), &want, allowed, allowed)?;
        }
        Ok(())
    }
    in_its_elements!(case, "input", check).map(|()| Run::Passed)
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
