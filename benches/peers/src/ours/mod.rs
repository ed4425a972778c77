//! shapeproof: every size of a setting is a type.

mod decode;
mod training;

use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, ElementType, Weights};
use shapeproof::{
    Axis, Batch, Bias, Causal, DivisibleBy, Float, Infer, Linear, Mode, Model, MultiHeadAttention,
    NoMask, Seq, Shape, Static, Tensor, bf16,
};
use std::hint::black_box;

pub use training::contestant as training;

/// The layer or the step of decoding.
pub fn attention(
    case: &Case,
    weights: &Weights,
    element: ElementType,
) -> Result<Box<dyn Contestant>> {
    match element {
        ElementType::F32 => single(case, weights),
        ElementType::Bf16 => sized::<bf16>(case, weights),
    }
}

/// In f32.
pub fn single(case: &Case, weights: &Weights) -> Result<Box<dyn Contestant>> {
    sized::<f32>(case, weights)
}

fn sized<E: Float>(case: &Case, weights: &Weights) -> Result<Box<dyn Contestant>> {
    if case.cached > 0 {
        return Ok(decode::contestant::<E>(case, weights));
    }
    with_sizes!(case, |B, S, M, H| layer::<B, S, M, H, E>(case, weights))
}

/// An expression with the sizes of a case as types.
macro_rules! with_sizes {
    ($case:expr, |$B:ident, $S:ident, $M:ident, $H:ident| $body:expr) => {{
        let crate::setting::Case { batch, length, width, heads, .. } = *$case;
        Ok(shapeproof::dispatch!((batch, length, width, heads) as ($B, $S, $M, $H) in [
            (32, 64, 512, 8),
            (1, 128, 384, 12),
            (1, 512, 768, 12),
            (8, 128, 768, 12),
            (1, 2048, 768, 12),
            (2, 16, 32, 4),
            (1, 8192, 512, 8),
        ] => $body)?)
    }};
}
use with_sizes;

type Activations<B, S, M, E = f32> = Tensor<(Batch<B>, Seq<S>, Model<M>), E>;
type Multi<M, H, E = f32> = MultiHeadAttention<M, H, M, M, Bias, E>;

struct Layer<B, S, M, H, E: Float> {
    layer: Multi<M, H, E>,
    x: Activations<B, S, M, E>,
    causal: bool,
}

fn layer<B: Static, S: Static, M: DivisibleBy<H>, H: Static, E: Float>(
    case: &Case,
    weights: &Weights,
) -> Box<dyn Contestant> {
    let x = tensor(<_>::default(), &weights.x);
    Box::new(Layer::<B, S, M, H, E> { layer: multi_head(weights), x, causal: case.causal })
}

impl<B: Static, S: Static, M: DivisibleBy<H>, H: Static, E: Float> Layer<B, S, M, H, E> {
    fn forward(&self) -> Activations<B, S, M, E> {
        forward(&self.layer, black_box(&self.x), self.causal, &mut Infer)
    }
}

fn forward<B: Static, S: Static, M: DivisibleBy<H>, H: Static, E: Float>(
    layer: &Multi<M, H, E>,
    x: &Activations<B, S, M, E>,
    causal: bool,
    mode: &mut impl Mode,
) -> Activations<B, S, M, E> {
    match causal {
        true => layer.forward(x, Causal, mode),
        false => layer.forward(x, NoMask, mode),
    }
}

impl<B: Static, S: Static, M: DivisibleBy<H>, H: Static, E: Float> Contestant
    for Layer<B, S, M, H, E>
{
    fn name(&self) -> &str {
        "shapeproof"
    }
    fn run(&self) -> Result<()> {
        black_box(self.forward());
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![single_floats(&self.forward())])
    }
}

fn multi_head<M: DivisibleBy<H>, H: Static, E: Float>(weights: &Weights) -> Multi<M, H, E> {
    let [q, k, v, out] = &weights.projections;
    let mut layer = Multi::zeros();
    set(&mut layer.q, q);
    set(&mut layer.k, k);
    set(&mut layer.v, v);
    set(&mut layer.out, out);
    layer
}

fn set<I: Axis, O: Axis, E: Float>(
    layer: &mut Linear<I, O, Bias, E>,
    (weight, bias): &(Vec<f32>, Vec<f32>),
) {
    layer.weight.set(tensor(layer.weight.shape(), weight));
    layer.bias.set(tensor(layer.bias.shape(), bias));
}

fn tensor<S: Shape, E: Float>(shape: S, values: &[f32]) -> Tensor<S, E> {
    let values = values.iter().map(|&value| E::from_f64(value.into())).collect();
    Tensor::try_from_vec(shape, values).expect("the setting's sizes")
}

fn single_floats<S: Shape, E: Float>(tensor: &Tensor<S, E>) -> Vec<f32> {
    tensor.to_vec().into_iter().map(|value| value.to_f64() as f32).collect()
}
