//! The training step: all parameters were made on a device that records.

use super::{Layer, elements, input, layers};
use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, Weights};
use ::burn::tensor::{Device, Gradients, Tensor};
use std::hint::black_box;

pub fn contestants(case: &Case, weights: &Weights) -> Vec<Box<dyn Contestant>> {
    let device = Device::flex().autodiff();
    let step = |layer| {
        let x = input(case, weights, &device).require_grad();
        Box::new(Step { layer, x }) as Box<dyn Contestant>
    };
    layers(case, weights, &device).into_iter().map(step).collect()
}

struct Step {
    layer: Layer,
    x: Tensor<3>,
}

impl Step {
    fn gradients(&self) -> Gradients {
        self.layer.forward(black_box(&self.x).clone()).sum().backward()
    }
}

impl Contestant for Step {
    fn name(&self) -> &str {
        self.layer.name()
    }
    fn run(&self) -> Result<()> {
        black_box(self.gradients());
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        const NONE: &str = "burn gives no gradient";
        let gradients = self.gradients();
        let linear = match &self.layer {
            Layer::Module(layer, _) => &layer.query,
            Layer::Fused(projections) => &projections.qkv,
        };
        let weight = linear.weight.val().grad(&gradients).ok_or(NONE)?;
        let queries = weight.narrow(1, 0, self.x.dims()[2]);
        let x = self.x.grad(&gradients).ok_or(NONE)?;
        Ok(vec![elements(x)?, elements(queries)?])
    }
}
