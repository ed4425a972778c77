//! shapeproof: every size of a setting is a type.

use crate::setting::{Case, Weights};
use crate::{Contestant, Result, decode};
use shapeproof::{
    Axis, Batch, C, Causal, DivisibleBy, Infer, Linear, Model, MultiHeadAttention, NoMask, Seq,
    Static, Tensor,
};
use std::hint::black_box;

pub fn contestant(case: &Case, weights: &Weights) -> Box<dyn Contestant> {
    match case.name {
        'F' => decode::ours(weights),
        'A' => layer::<C<32>, C<64>, C<512>, C<8>>(case, weights),
        'B' => layer::<C<1>, C<128>, C<384>, C<12>>(case, weights),
        'C' => layer::<C<1>, C<512>, C<768>, C<12>>(case, weights),
        'D' => layer::<C<8>, C<128>, C<768>, C<12>>(case, weights),
        'E' | 'H' => layer::<C<1>, C<2048>, C<768>, C<12>>(case, weights),
        'G' => layer::<C<2>, C<16>, C<32>, C<4>>(case, weights),
        'I' => layer::<C<1>, C<8192>, C<512>, C<8>>(case, weights),
        name => unreachable!("{name} is not among the cases"),
    }
}

type Activations<B, S, M> = Tensor<(Batch<B>, Seq<S>, Model<M>)>;

struct Layer<B, S, M, H> {
    layer: MultiHeadAttention<M, H>,
    x: Activations<B, S, M>,
    causal: bool,
}

pub fn multi_head<M: DivisibleBy<H>, H: Static>(weights: &Weights) -> MultiHeadAttention<M, H> {
    let [q, k, v, out] = &weights.projections;
    let mut layer = MultiHeadAttention::<M, H>::zeros();
    set(&mut layer.q, q);
    set(&mut layer.k, k);
    set(&mut layer.v, v);
    set(&mut layer.out, out);
    layer
}

fn layer<B: Static, S: Static, M: DivisibleBy<H>, H: Static>(
    case: &Case,
    weights: &Weights,
) -> Box<dyn Contestant> {
    let layer = multi_head(weights);
    let x = Tensor::try_from_vec(<_>::default(), weights.x.clone()).expect("the setting's sizes");
    Box::new(Layer::<B, S, M, H> { layer, x, causal: case.causal })
}

fn set<I: Axis, O: Axis>(layer: &mut Linear<I, O>, (weight, bias): &(Vec<f32>, Vec<f32>)) {
    let (weight_shape, bias_shape) = (layer.weight.shape(), layer.bias.shape());
    layer.weight.set(Tensor::try_from_vec(weight_shape, weight.clone()).expect("the width twice"));
    layer.bias.set(Tensor::try_from_vec(bias_shape, bias.clone()).expect("the width"));
}

impl<B: Static, S: Static, M: DivisibleBy<H>, H: Static> Layer<B, S, M, H> {
    fn forward(&self) -> Activations<B, S, M> {
        if self.causal {
            self.layer.forward(black_box(&self.x), Causal, &mut Infer)
        } else {
            self.layer.forward(black_box(&self.x), NoMask, &mut Infer)
        }
    }
}

impl<B: Static, S: Static, M: DivisibleBy<H>, H: Static> Contestant for Layer<B, S, M, H> {
    fn name(&self) -> &str {
        "shapeproof"
    }
    fn run(&self) -> Result<()> {
        black_box(self.forward());
        Ok(())
    }
    fn answer(&self) -> Result<Vec<f32>> {
        Ok(self.forward().to_vec())
    }
}
