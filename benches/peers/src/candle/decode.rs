//! Setting F: the cache is written in its place, then plain products.

use super::{Layer, Way, elements, input, tensor};
use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, Weights};
use candle_core::Tensor;
use candle_nn::{Module, ops::softmax_last_dim};
use std::hint::black_box;

pub fn contestant(case: &Case, weights: &Weights) -> Result<Box<dyn Contestant>> {
    let dims = [1, case.heads, case.cached + 1, case.width / case.heads];
    let [keys, values] = weights.cached_with_place(case);
    Ok(Box::new(Step {
        layer: Layer::new(Way::Plain, case, weights)?,
        x: input(case, weights)?,
        keys: tensor(&keys, &dims)?,
        values: tensor(&values, &dims)?,
    }))
}

struct Step {
    layer: Layer,
    x: Tensor,
    keys: Tensor,
    values: Tensor,
}

impl Step {
    fn step(&self) -> candle_core::Result<Tensor> {
        let Case { width, heads, cached, .. } = self.layer.case;
        let head_dim = width / heads;
        let qkv = self.layer.qkv.forward(black_box(&self.x))?;
        let qkv = qkv.reshape((1, 3, heads, 1, head_dim))?;
        let part = |i: usize| qkv.narrow(1, i, 1)?.squeeze(1);
        self.keys.slice_set(&part(1)?, 2, cached)?;
        self.values.slice_set(&part(2)?, 2, cached)?;
        let scale = 1.0 / (head_dim as f64).sqrt();
        let scores = (part(0)?.matmul(&self.keys.t()?)? * scale)?;
        let y = softmax_last_dim(&scores)?.matmul(&self.values)?;
        self.layer.out.forward(&y.reshape((1, 1, width))?)
    }
}

impl Contestant for Step {
    fn name(&self) -> &str {
        "candle"
    }
    fn run(&self) -> Result<()> {
        black_box(self.step()?);
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![elements(&self.step()?)?])
    }
}
