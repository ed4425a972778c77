//! candle: one linear layer for queries, keys and values, then either plain products around its
//! softmax, or its fused attention.

mod decode;
mod glass;
mod training;

use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, Weights};
use candle_core::{D, Device, Tensor};
use candle_nn::attention::{AttnMask, flash_attn};
use candle_nn::ops::{softmax, softmax_last_dim};
use candle_nn::{Linear, Module};
use std::hint::black_box;

pub use glass::contestant as glass;
pub use training::contestant as training;

pub fn attention(case: &Case, weights: &Weights) -> Result<Vec<Box<dyn Contestant>>> {
    if case.cached > 0 {
        return Ok(vec![decode::contestant(case, weights)?]);
    }
    // The scores of I are 2 GiB, and several copies of them are held at once.
    let ways = if case.name == 'I' { &[Way::Fused][..] } else { &[Way::Plain, Way::Fused] };
    let layer = |&way| {
        let (layer, x) = (Layer::new(way, case, weights)?, input(case, weights)?);
        Ok(Box::new(Forward { layer, x }) as Box<dyn Contestant>)
    };
    ways.iter().map(layer).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Products around the softmax that goes through memory once.
    Plain,
    /// Products around the softmax that has a gradient.
    Recorded,
    Fused,
}

/// The layer's parameters, and how it computes.
struct Layer {
    way: Way,
    case: Case,
    qkv: Linear,
    out: Linear,
    /// 0 for the keys that a query sees, −∞ for the others; where the setting is causal.
    hidden: Option<Tensor>,
}

impl Layer {
    fn new(way: Way, case: &Case, weights: &Weights) -> Result<Self> {
        let Case { length, width, .. } = *case;
        let [q, k, v, out] = &weights.projections;
        // candle's weights are over (out, in).
        let turned = |weight: &[f32]| tensor(weight, &[width, width])?.t()?.contiguous();
        let weight = Tensor::cat(&[turned(&q.0)?, turned(&k.0)?, turned(&v.0)?], 0)?;
        let bias = tensor(&[&q.1[..], &k.1, &v.1].concat(), &[3 * width])?;
        let hidden = || {
            let at = |i: usize| if i % length > i / length { f32::NEG_INFINITY } else { 0.0 };
            let mask: Vec<f32> = (0..length * length).map(at).collect();
            tensor(&mask, &[length, length])
        };
        Ok(Layer {
            way,
            case: *case,
            qkv: Linear::new(weight, Some(bias)),
            out: Linear::new(turned(&out.0)?, Some(tensor(&out.1, &[width])?)),
            hidden: (case.causal && way != Way::Fused).then(hidden).transpose()?,
        })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let Case { batch, length, width, heads, causal, .. } = self.case;
        let scale = 1.0 / ((width / heads) as f64).sqrt();
        let qkv = self.qkv.forward(x)?.reshape((batch, length, 3, heads, width / heads))?;
        let part = |i: usize| qkv.narrow(2, i, 1)?.squeeze(2);
        let y = if self.way == Way::Fused {
            let mask = if causal { AttnMask::causal() } else { AttnMask::None };
            let [q, k, v] = [part(0)?, part(1)?, part(2)?];
            flash_attn::<f32>(&q, &k, &v, scale as f32, mask, None, None)?
        } else {
            let by_head = |i: usize| part(i)?.transpose(1, 2)?.contiguous();
            let scores = (by_head(0)?.matmul(&by_head(1)?.t()?)? * scale)?;
            let scores = match &self.hidden {
                Some(hidden) => scores.broadcast_add(hidden)?,
                None => scores,
            };
            let attention = match self.way {
                Way::Recorded => softmax(&scores, D::Minus1)?,
                _ => softmax_last_dim(&scores)?,
            };
            attention.matmul(&by_head(2)?)?
        };
        let y = y.reshape((batch, heads, length, width / heads))?.transpose(1, 2)?;
        self.out.forward(&y.reshape((batch, length, width))?)
    }
}

struct Forward {
    layer: Layer,
    x: Tensor,
}

impl Forward {
    fn forward(&self) -> candle_core::Result<Tensor> {
        self.layer.forward(black_box(&self.x))
    }
}

impl Contestant for Forward {
    fn name(&self) -> &str {
        match self.layer.way {
            Way::Fused => "candle, fused attention",
            _ => "candle, plain products",
        }
    }
    fn run(&self) -> Result<()> {
        black_box(self.forward()?);
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![elements(&self.forward()?)?])
    }
}

fn input(case: &Case, weights: &Weights) -> candle_core::Result<Tensor> {
    tensor(&weights.x, &[case.batch, case.length, case.width])
}

fn tensor(values: &[f32], dims: &[usize]) -> candle_core::Result<Tensor> {
    Tensor::from_slice(values, dims, &Device::Cpu)
}

fn elements(tensor: &Tensor) -> candle_core::Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}
