//! candle: one linear layer for queries, keys and values, then either plain products around its
//! softmax, or its fused attention.

use crate::setting::{Case, Weights};
use crate::{Contestant, Result, decode};
use candle_core::{Device, Module, Tensor};
use candle_nn::Linear;
use candle_nn::attention::{AttnMask, flash_attn};
use candle_nn::ops::softmax_last_dim;
use std::hint::black_box;

pub fn contestants(case: &Case, weights: &Weights) -> Result<Vec<Box<dyn Contestant>>> {
    if case.cached > 0 {
        let Attention { qkv, out, .. } = Attention::new("", false, case, weights)?;
        return Ok(vec![decode::candle(case, weights, qkv, out)?]);
    }
    let fused = Attention::new("candle, fused attention", true, case, weights)?;
    let plain = Attention::new("candle, plain products", false, case, weights)?;
    // The scores of I are 2 GiB, and several copies of them are held at once.
    let plain = (case.name != 'I').then(|| Box::new(plain) as Box<dyn Contestant>);
    Ok(plain.into_iter().chain([Box::new(fused) as Box<dyn Contestant>]).collect())
}

struct Attention {
    name: &'static str,
    fused: bool,
    case: Case,
    qkv: Linear,
    out: Linear,
    x: Tensor,
    /// 0 for the keys that a query sees, −∞ for the others; where the setting is causal.
    hidden: Option<Tensor>,
}

impl Attention {
    fn new(name: &'static str, fused: bool, case: &Case, weights: &Weights) -> Result<Self> {
        let Case { batch, length, width, .. } = *case;
        let [q, k, v, out] = &weights.projections;
        let tensor =
            |values: &[f32], dims: &[usize]| Tensor::from_slice(values, dims, &Device::Cpu);
        // candle's weights are over (out, in).
        let turned = |weight: &[f32]| tensor(weight, &[width, width])?.t()?.contiguous();
        let weight = Tensor::cat(&[turned(&q.0)?, turned(&k.0)?, turned(&v.0)?], 0)?;
        let bias = tensor(&[&q.1[..], &k.1, &v.1].concat(), &[3 * width])?;
        let hidden = || {
            let at = |i: usize| if i % length > i / length { f32::NEG_INFINITY } else { 0.0 };
            let mask: Vec<f32> = (0..length * length).map(at).collect();
            tensor(&mask, &[length, length])
        };
        Ok(Attention {
            name,
            fused,
            case: *case,
            qkv: Linear::new(weight, Some(bias)),
            out: Linear::new(turned(&out.0)?, Some(tensor(&out.1, &[width])?)),
            x: tensor(&weights.x, &[batch, length, width])?,
            hidden: (case.causal && !fused).then(hidden).transpose()?,
        })
    }

    fn forward(&self) -> candle_core::Result<Tensor> {
        let Case { batch, length, width, heads, causal, .. } = self.case;
        let scale = 1.0 / ((width / heads) as f64).sqrt();
        let qkv = self.qkv.forward(black_box(&self.x))?;
        let qkv = qkv.reshape((batch, length, 3, heads, width / heads))?;
        let part = |i: usize| qkv.narrow(2, i, 1)?.squeeze(2);
        let y = if self.fused {
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
            softmax_last_dim(&scores)?.matmul(&by_head(2)?)?
        };
        let y = y.reshape((batch, heads, length, width / heads))?.transpose(1, 2)?;
        self.out.forward(&y.reshape((batch, length, width))?)
    }
}

impl Contestant for Attention {
    fn name(&self) -> &str {
        self.name
    }
    fn run(&self) -> Result<()> {
        black_box(self.forward()?);
        Ok(())
    }
    fn answer(&self) -> Result<Vec<f32>> {
        Ok(self.forward()?.flatten_all()?.to_vec1()?)
    }
}
