//! Stochastic gradient descent.

use super::UpdateRule;
use super::optimizer::{Step, in_range};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::kernel::optim::{Descent, Momentum, update};
use crate::tensor::AnyTensor;

/// g ← g + decay · p; b ← momentum · b + (1 − dampening) · g; p ← p − rate · b.
///
/// The first b is g itself. Without momentum there is no b, and with [`nesterov`](Self::nesterov) it is
/// g + momentum · b that the parameter follows.
///
/// # Examples
/// ```
/// use shapeproof::{Mode, Model, Module, Optimizer, Parameter, Sgd, Tensor, Train, C, parameters};
///
/// struct Point {
///     at: Parameter<(Model<C<2>>,)>,
/// }
/// impl Module for Point {
///     parameters!(at);
/// }
///
/// let mut point = Point { at: Parameter::new(Tensor::from([3.0, -4.0])) };
/// let mut optimizer = Optimizer::try_new(Sgd::default())?;
/// let mut train = Train::seeded(1);
/// let at = train.read(&point.at);
/// let gradients = train.backward(&at.mul(&at).sum_all()); // 2 · at
/// optimizer.step(&mut point, &gradients, 0.25)?;
/// assert_eq!(point.at.value().to_vec(), [1.5, -2.0]);
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013, with
/// the rate outside of b.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sgd {
    /// How much of b stays from one update to the next; 0 for none.
    pub momentum: f64,
    /// How much of the gradient does not go into b.
    pub dampening: f64,
    /// Whether the parameter follows where b will be. Needs momentum, and no dampening.
    pub nesterov: bool,
    /// How much of the parameter is added to its gradient.
    pub weight_decay: f64,
}

#[diagnostic::do_not_recommend]
impl UpdateRule for Sgd {
    const NAME: &'static str = "sgd";

    fn slots(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    fn check(&self) -> Result<()> {
        in_range("the momentum", self.momentum, 0.0..1.0)?;
        in_range("the dampening", self.dampening, 0.0..f64::INFINITY)?;
        in_range("the weight decay", self.weight_decay, 0.0..f64::INFINITY)?;
        if self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0) {
            return Err(Error::value(format!(
                "Nesterov's rule needs a momentum above 0 and a dampening of 0, found {} and {}",
                self.momentum, self.dampening
            )));
        }
        Ok(())
    }

    fn apply<E: Float>(
        &self,
        parameter: &mut [E],
        slots: &mut [AnyTensor<E>],
        gradient: &[E],
        step: Step,
    ) {
        let wide = |x: f64| E::from_f64(x).wide();
        let (rate, decay) = (wide(step.rate), wide(self.weight_decay));
        let [momentum] = slots else {
            return update([parameter], gradient, Descent { rate, decay });
        };
        let taken = if step.update == 1 { 1.0 } else { 1.0 - self.dampening };
        let (own, of_momentum) = if self.nesterov { (1.0, self.momentum) } else { (0.0, 1.0) };
        let rule = Momentum {
            rate,
            decay,
            momentum: wide(self.momentum),
            taken: wide(taken),
            own: wide(own),
            of_momentum: wide(of_momentum),
        };
        update([parameter, momentum.packed_mut()], gradient, rule);
    }
}
