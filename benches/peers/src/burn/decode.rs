//! Setting F: the cache is written in its place, where burn's own would be copied to a longer one.

use super::{Projections, elements, fused_attention, input, tensor};
use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, Weights};
use ::burn::tensor::activation::softmax;
use ::burn::tensor::{Device, Tensor};
use std::cell::Cell;
use std::hint::black_box;

pub fn contestants(case: &Case, weights: &Weights, device: &Device) -> Vec<Box<dyn Contestant>> {
    let dims = [1, case.heads, case.cached + 1, case.width / case.heads];
    let step = |fused| {
        let caches = weights.cached_with_place(case).map(|values| tensor(&values, dims, device));
        let projections = Projections::new(case, weights, device);
        let x = input(case, weights, device);
        Box::new(Step { fused, projections, x, caches: Cell::new(Some(caches)) })
            as Box<dyn Contestant>
    };
    [false, true].map(step).into()
}

struct Step {
    fused: bool,
    projections: Projections,
    x: Tensor<3>,
    /// Taken and given back: what nobody else holds is written in its place.
    caches: Cell<Option<[Tensor<4>; 2]>>,
}

impl Step {
    fn step(&self) -> Tensor<3> {
        let cached = self.projections.case.cached;
        let [q, k, v] = self.projections.split(black_box(&self.x).clone());
        let [keys, values] = self.caches.take().expect("they are given back");
        let place = [0..1, 0..k.dims()[1], cached..cached + 1, 0..k.dims()[3]];
        let keys = keys.slice_assign(place.clone(), k);
        let values = values.slice_assign(place, v);
        let y = if self.fused {
            let options = <_>::default();
            fused_attention(q, keys.clone(), values.clone(), None, None, options)
        } else {
            let scale = 1.0 / (q.dims()[3] as f32).sqrt();
            let scores = q.matmul(keys.clone().transpose()).mul_scalar(scale);
            softmax(scores, 3).matmul(values.clone())
        };
        self.caches.set(Some([keys, values]));
        self.projections.join(y)
    }
}

impl Contestant for Step {
    fn name(&self) -> &str {
        if self.fused { "burn, fused attention" } else { "burn, plain products" }
    }
    fn run(&self) -> Result<()> {
        black_box(self.step());
        Ok(())
    }
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![elements(self.step())?])
    }
}
