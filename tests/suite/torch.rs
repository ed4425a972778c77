//! What the tests of PyTorch's cases share: tolerances, what a case has, parameters, masks, the loss.

use safetensors::Dtype;
use shapeproof::{
    Axis, BiasKind, Flat, Float, Gradients, Linear, Mask, Shape, Size, Tensor, dyn_size,
};

use crate::fixtures::Case;
use crate::masks::{Over, Part, Sizes, narrowed, widened};
use crate::oracle;

/// What is allowed: the fixtures' own tolerance for f32, rounding for f64. For halves so many
/// units of rounding of numbers around 1: the inputs are rounded, and what every step of a layer writes,
/// and all that is added up in f32.
pub(crate) fn tolerance<E: Float>() -> (f64, f64) {
    match E::NAME {
        "f64" => (1e-9, 1e-10),
        "f16" => (16.0 / 2048.0, 16.0 / 2048.0),
        "bf16" => (8.0 / 256.0, 8.0 / 256.0),
        _ => (1e-4, 1e-5),
    }
}

/// An `Err` for an input that the runner does not know what to do with.
pub(crate) fn known_inputs(case: &Case, known: &[&str]) -> Result<(), String> {
    let unknown = |name: &&str| name.strip_prefix("in.").is_some_and(|name| !known.contains(&name));
    match case.tensors.names().find(unknown) {
        Some(name) => Err(format!("the runner does not know the input {name:?}")),
        None => Ok(()),
    }
}

/// A tensor of the case.
pub(crate) fn tensor<S: Shape, E: Float>(case: &Case, key: &str, shape: S) -> Tensor<S, E> {
    Tensor::try_from_vec(shape, narrowed(&case.tensors.f64(key))).unwrap()
}

/// Σ up · y, whose gradient of y is what the case says.
pub(crate) fn loss<S: Shape, E: Float>(case: &Case, y: &Tensor<S, E>) -> Tensor<(), E> {
    dyn_size!(count = y.count());
    let all = (Flat(count),);
    y.try_reshape(all).unwrap().mul(&tensor(case, "up.output", all)).sum_all()
}

/// The weight, over (out, in), and the bias of one linear map.
pub(crate) struct Projection {
    pub(crate) weight: Vec<f64>,
    pub(crate) bias: Option<Vec<f64>>,
}

/// q, k and v, from three weights or from the packed one under `prefix`.
pub(crate) fn projections(case: &Case, prefix: &str) -> [Projection; 3] {
    let packed = format!("{prefix}in_proj_weight");
    let weights = if case.tensors.has(&packed) {
        thirds(&case.tensors.f64(&packed))
    } else {
        ["q", "k", "v"].map(|of| case.tensors.f64(&format!("{prefix}{of}_proj_weight")))
    };
    let biases = optional(case, &format!("{prefix}in_proj_bias")).map(|packed| thirds(&packed));
    let mut part = 0;
    weights.map(|weight| {
        part += 1;
        Projection { weight, bias: biases.as_ref().map(|biases| biases[part - 1].clone()) }
    })
}

pub(crate) fn optional(case: &Case, name: &str) -> Option<Vec<f64>> {
    case.tensors.has(name).then(|| case.tensors.f64(name))
}

fn thirds(packed: &[f64]) -> [Vec<f64>; 3] {
    let third = packed.len() / 3;
    [0, 1, 2].map(|part| packed[part * third..][..third].to_vec())
}

/// Gives a linear map its numbers. A bias in one of the two alone is an error.
pub(crate) fn set<I, O, B, E>(linear: &mut Linear<I, O, B, E>, of: &Projection)
where
    I: Axis,
    O: Axis,
    B: BiasKind,
    E: Float,
{
    let (input, output) = linear.weight.shape();
    let inputs = input.size().get();
    assert_eq!(of.weight.len(), inputs * output.size().get(), "elements of a weight");
    let weight =
        Tensor::from_fn_in((input, output), |at| E::from_f64(of.weight[at[1] * inputs + at[0]]));
    linear.weight.set(weight);
    match (B::get_mut(&mut linear.bias), &of.bias) {
        (Some(bias), Some(values)) => {
            bias.set(Tensor::try_from_vec((output,), narrowed(values)).unwrap());
        }
        (None, None) => {}
        (mine, _) => {
            panic!("a bias in the {} alone", if mine.is_some() { "layer" } else { "file" })
        }
    }
}

/// The gradient of a map's weight, over (out, in).
pub(crate) fn weight_of<I: Axis, O: Axis, B: BiasKind, E: Float>(
    gradients: &Gradients,
    map: &Linear<I, O, B, E>,
) -> Vec<f64> {
    let found = gradients.of(&map.weight);
    let (inputs, outputs) = (found.dims()[0], found.dims()[1]);
    oracle::exchanged(&widened(&found.to_vec()), [inputs, outputs, 1])
}

/// A mask in which `true` leaves out, or numbers to be added.
pub(crate) fn part(case: &Case, name: &str, sizes: Sizes, dims: &[usize]) -> Part {
    if case.tensors.dtype(name) != Dtype::BOOL {
        return Part::Bias(Over::matched(sizes, dims, &case.tensors.f64(name)));
    }
    let values = case.tensors.bools(name);
    dyn_size!(count = values.len());
    let hidden = Tensor::try_from_vec((Flat(count),), values).unwrap();
    Part::Keep(Over::matched(sizes, dims, &Mask::hide(&hidden).to_vec()))
}
