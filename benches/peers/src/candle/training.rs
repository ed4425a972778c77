//! The training step, by plain products: candle's fused attention and its fast softmax have no gradient.

use super::{Layer, Way, elements, input};
use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, Weights};
use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};
use candle_nn::Linear;
use std::hint::black_box;

pub fn contestant(case: &Case, weights: &Weights) -> Result<Box<dyn Contestant>> {
    let mut layer = Layer::new(Way::Recorded, case, weights)?;
    for linear in [&mut layer.qkv, &mut layer.out] {
        let bias = linear.bias().map(variable).transpose()?;
        *linear = Linear::new(variable(linear.weight())?, bias);
    }
    let x = variable(&input(case, weights)?)?;
    Ok(Box::new(Step { layer, x }))
}

/// What gradients are computed of.
fn variable(tensor: &Tensor) -> candle_core::Result<Tensor> {
    Ok(Var::from_tensor(tensor)?.into_inner())
}

struct Step {
    layer: Layer,
    x: Tensor,
}

impl Step {
    fn gradients(&self) -> candle_core::Result<GradStore> {
        self.layer.forward(black_box(&self.x))?.sum_all()?.backward()
    }
}

impl Contestant for Step {
    fn name(&self) -> &str {
        "candle"
    }
    fn run(&self) -> Result<()> {
        black_box(self.gradients()?);
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        let gradients = self.gradients()?;
        let of = |tensor| gradients.get(tensor).ok_or("candle gives no gradient");
        let queries = of(self.layer.qkv.weight())?.narrow(0, 0, self.layer.case.width)?.t()?;
        Ok(vec![elements(of(&self.x)?)?, elements(&queries)?])
    }
}
