//! The training step. The input is a parameter too, so that it has a gradient.

use super::{Activations, Multi, forward, multi_head, tensor, with_sizes};
use crate::Result;
use crate::race::Contestant;
use crate::setting::{Case, Weights};
use shapeproof::{Batch, DivisibleBy, Gradients, Mode, Model, Parameter, Seq, Static, Train};
use std::hint::black_box;

pub fn contestant(case: &Case, weights: &Weights) -> Result<Box<dyn Contestant>> {
    with_sizes!(case, |B, S, M, H| step::<B, S, M, H>(case, weights))
}

struct Step<B, S, M, H> {
    layer: Multi<M, H>,
    x: Parameter<(Batch<B>, Seq<S>, Model<M>)>,
    causal: bool,
}

fn step<B: Static, S: Static, M: DivisibleBy<H>, H: Static>(
    case: &Case,
    weights: &Weights,
) -> Box<dyn Contestant> {
    let x: Activations<B, S, M> = tensor(<_>::default(), &weights.x);
    let (layer, x) = (multi_head(weights), Parameter::new(x));
    Box::new(Step::<B, S, M, H> { layer, x, causal: case.causal })
}

impl<B: Static, S: Static, M: DivisibleBy<H>, H: Static> Step<B, S, M, H> {
    fn gradients(&self) -> Gradients {
        let mut train = Train::seeded(1);
        let x = train.read(black_box(&self.x));
        let y = forward(&self.layer, &x, self.causal, &mut train);
        train.backward(&y.sum_all())
    }
}

impl<B: Static, S: Static, M: DivisibleBy<H>, H: Static> Contestant for Step<B, S, M, H> {
    fn name(&self) -> &str {
        "shapeproof"
    }
    fn run(&self) -> Result<()> {
        black_box(self.gradients());
        Ok(())
    }
    /// The gradients of the input and of the queries' weight.
    fn answer(&self) -> Result<Vec<Vec<f32>>> {
        let gradients = self.gradients();
        Ok(vec![gradients.of(&self.x).to_vec(), gradients.of(&self.layer.q.weight).to_vec()])
    }
}
