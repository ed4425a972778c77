//! burn on its CPU backend, flex: its attention layer, or a linear layer for queries, keys and values
//! together around its fused attention.

mod decode;
mod training;

use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, Weights};
use ::burn::module::Param;
use ::burn::nn::Linear;
use ::burn::nn::attention::{
    MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask,
};
use ::burn::tensor::module::attention as fused_attention;
use ::burn::tensor::ops::AttentionModuleOptions;
use ::burn::tensor::{Bool, Device, Tensor, TensorData};
use std::hint::black_box;

pub use training::contestants as training;

pub fn attention(case: &Case, weights: &Weights) -> Vec<Box<dyn Contestant>> {
    let device = Device::flex();
    if case.cached > 0 {
        return decode::contestants(case, weights, &device);
    }
    let forward = |layer| {
        let x = input(case, weights, &device);
        Box::new(Forward { layer, x }) as Box<dyn Contestant>
    };
    layers(case, weights, &device).into_iter().map(forward).collect()
}

enum Layer {
    /// The layer as burn has it, and `true` for what a query does not see.
    Module(Box<MultiHeadAttention>, Option<Tensor<3, Bool>>),
    Fused(Projections),
}

/// Both ways; of I the second alone, because the first one's scores would be 2 GiB, several times.
fn layers(case: &Case, weights: &Weights, device: &Device) -> Vec<Layer> {
    let fused = Layer::Fused(Projections::new(case, weights, device));
    let module = (case.name != 'I').then(|| Layer::module(case, weights, device));
    module.into_iter().chain([fused]).collect()
}

impl Layer {
    fn module(case: &Case, weights: &Weights, device: &Device) -> Self {
        let config = MultiHeadAttentionConfig::new(case.width, case.heads).with_dropout(0.0);
        let mut layer = config.init(device);
        let [q, k, v, out] =
            weights.projections.each_ref().map(|it| linear(&[it], case.width, device));
        (layer.query, layer.key, layer.value, layer.output) = (q, k, v, out);
        let mask = || generate_autoregressive_mask(case.batch, case.length, device);
        Layer::Module(Box::new(layer), case.causal.then(mask))
    }

    fn name(&self) -> &'static str {
        match self {
            Layer::Module(..) => "burn, MultiHeadAttention",
            Layer::Fused(_) => "burn, fused attention",
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Layer::Module(layer, mask) => {
                let input = MhaInput::self_attn(x);
                layer
                    .forward(match mask {
                        Some(mask) => input.mask_attn(mask.clone()),
                        None => input,
                    })
                    .context
            }
            Layer::Fused(projections) => {
                let [q, k, v] = projections.split(x);
                let is_causal = projections.case.causal;
                let options = AttentionModuleOptions { is_causal, ..Default::default() };
                projections.join(fused_attention(q, k, v, None, None, options))
            }
        }
    }
}

/// One linear map for queries, keys and values, and one for the output.
struct Projections {
    case: Case,
    qkv: Linear,
    out: Linear,
}

impl Projections {
    fn new(case: &Case, weights: &Weights, device: &Device) -> Self {
        let [q, k, v, out] = &weights.projections;
        Projections {
            case: *case,
            qkv: linear(&[q, k, v], case.width, device),
            out: linear(&[out], case.width, device),
        }
    }

    /// Queries, keys and values, each over (batch, heads, length, head dim).
    fn split(&self, x: Tensor<3>) -> [Tensor<4>; 3] {
        let Case { batch, length, width, heads, .. } = self.case;
        let qkv = self.qkv.forward(x).reshape([batch, length, 3, heads, width / heads]);
        [0, 1, 2].map(|part| qkv.clone().narrow(2, part, 1).squeeze_dim::<4>(2).swap_dims(1, 2))
    }

    fn join(&self, y: Tensor<4>) -> Tensor<3> {
        let Case { batch, length, width, .. } = self.case;
        self.out.forward(y.swap_dims(1, 2).reshape([batch, length, width]))
    }
}

struct Forward {
    layer: Layer,
    x: Tensor<3>,
}

impl Forward {
    fn forward(&self) -> Tensor<3> {
        self.layer.forward(black_box(&self.x).clone())
    }
}

impl Contestant for Forward {
    fn name(&self) -> &str {
        self.layer.name()
    }
    fn run(&self) -> Result<()> {
        black_box(self.forward());
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![elements(self.forward())?])
    }
}

/// Maps of one input beside each other; burn's weights are over (in, out) as well.
fn linear(maps: &[&(Vec<f32>, Vec<f32>)], width: usize, device: &Device) -> Linear {
    let weights = maps.iter().map(|(weight, _)| tensor(weight, [width, width], device));
    let biases: Vec<f32> = maps.iter().flat_map(|(_, bias)| bias.clone()).collect();
    Linear {
        weight: Param::from_tensor(Tensor::cat(weights.collect(), 1)),
        bias: Some(Param::from_tensor(tensor(&biases, [biases.len()], device))),
    }
}

fn input(case: &Case, weights: &Weights, device: &Device) -> Tensor<3> {
    tensor(&weights.x, [case.batch, case.length, case.width], device)
}

fn tensor<const D: usize>(values: &[f32], dims: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), dims), device)
}

fn elements<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    let data = tensor.into_data();
    data.try_into_vec().map_err(|error| format!("burn: {error:?}").into())
}
