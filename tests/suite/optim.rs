//! Schedules, the beginning of parameters, optimizers, and runs that are interrupted.

mod clipping;
mod init;
mod reference;
mod refusals;
mod resumed;
mod schedules;
mod steps;
mod trained;

use shapeproof::{
    C, Float, Gradients, Hidden, Mode, Model, Module, Parameter, Static, Tensor, Train,
};

/// Two parameters, of an encoder layer's names.
struct Pair<R, W, E = f32> {
    weight: Parameter<(Model<R>, Hidden<W>), E>,
    bias: Parameter<(Hidden<W>,), E>,
}

impl<R: Static, W: Static, E: Float> Module for Pair<R, W, E> {
    shapeproof::parameters!(weight as "norm.weight", bias);
}

impl<R: Static, W: Static, E: Float> Pair<R, W, E> {
    fn new(start: f64) -> Self {
        let value = |at: usize| E::from_f64(start + f64::from(u32::try_from(at).unwrap()) / 7.0);
        let mut at = 0;
        let mut next = |_: &[usize]| {
            at += 1;
            value(at)
        };
        Pair {
            weight: Parameter::new(Tensor::from_fn(&mut next)),
            bias: Parameter::new(Tensor::from_fn(&mut next)),
        }
    }

    /// Gradients that depend on the values, and so on all steps before.
    fn gradients(&self) -> Gradients {
        let mut train = Train::seeded(1);
        let (weight, bias) = (train.read(&self.weight), train.read(&self.bias));
        let loss = weight.mul(&weight).sum_all().add(&bias.exp().sum_all());
        train.backward(&loss)
    }
}

type Small<E = f32> = Pair<C<3>, C<2>, E>;

/// These gradients for the weight alone.
fn given<E: Float>(pair: &Small<E>, gradient: &[f64]) -> Gradients {
    let gradient = gradient.iter().map(|&x| E::from_f64(x)).collect();
    let gradient = Tensor::try_from_vec(pair.weight.shape(), gradient).unwrap();
    let mut train = Train::seeded(1);
    let loss = train.read(&pair.weight).mul(&gradient).sum_all();
    train.backward(&loss)
}
