//! Adam, and Adam with decoupled weight decay.

use super::UpdateRule;
use super::optimizer::{Step, in_range};
use crate::element::Float;
use crate::error::Result;
use crate::kernel::optim::{Moments, update};
use crate::tensor::AnyTensor;

/// g ← g + decay · p; m ← β₁ m + (1 − β₁) g; v ← β₂ v + (1 − β₂) g²;
/// p ← p − rate · m̂ / (√v̂ + ε), where m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ) in a parameter's update t.
///
/// The weight decay is part of the gradient here, and so is divided by √v̂ as well; [`AdamW`] keeps it
/// apart.
///
/// # Examples
/// ```
/// use shapeproof::{Adam, Optimizer};
///
/// let optimizer = Optimizer::try_new(Adam { betas: (0.9, 0.98), epsilon: 1e-9, ..Adam::default() })?;
/// assert_eq!(optimizer.rule().weight_decay, 0.0);
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1; for amsgrad, Reddi,
/// Kale and Kumar, "On the Convergence of Adam and Beyond", 2018, algorithm 2.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Adam {
    /// β₁ and β₂.
    pub betas: (f64, f64),
    /// ε, outside of the root.
    pub epsilon: f64,
    /// How much of the parameter is added to its gradient.
    pub weight_decay: f64,
    /// Whether the largest v so far stands in the place of v.
    pub amsgrad: bool,
}

impl Default for Adam {
    /// β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸, no weight decay, no amsgrad.
    fn default() -> Self {
        Adam { betas: (0.9, 0.999), epsilon: 1e-8, weight_decay: 0.0, amsgrad: false }
    }
}

/// Adam with a weight decay of its own: p ← p − rate · (m̂ / (√v̂ + ε) + decay · p), with m̂ and v̂ as in
/// [`Adam`].
///
/// # Examples
/// ```
/// use shapeproof::{AdamW, Optimizer};
///
/// let rule = AdamW { weight_decay: 0.1, ..AdamW::default() };
/// let optimizer = Optimizer::try_new(rule)?
///     .try_group(|name| name.ends_with("bias"), AdamW { weight_decay: 0.0, ..rule })?;
/// assert_eq!(optimizer.rule(), &rule);
///
/// let error = Optimizer::try_new(AdamW { epsilon: -1.0, ..rule }).unwrap_err();
/// assert!(error.is_value());
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, algorithm 2; its λ is the decay.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AdamW {
    /// β₁ and β₂.
    pub betas: (f64, f64),
    /// ε, outside of the root.
    pub epsilon: f64,
    /// How much of itself, times the rate, a parameter loses in each update.
    pub weight_decay: f64,
    /// Whether the largest v so far stands in the place of v.
    pub amsgrad: bool,
}

impl Default for AdamW {
    /// β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸, a weight decay of 0.01, no amsgrad.
    fn default() -> Self {
        AdamW { betas: (0.9, 0.999), epsilon: 1e-8, weight_decay: 0.01, amsgrad: false }
    }
}

impl AdamW {
    fn undecayed(&self) -> Adam {
        Adam { betas: self.betas, epsilon: self.epsilon, weight_decay: 0.0, amsgrad: self.amsgrad }
    }
}

#[diagnostic::do_not_recommend]
impl UpdateRule for Adam {
    const NAME: &'static str = "adam";

    fn slots(&self) -> &'static [&'static str] {
        if self.amsgrad { &["mean", "square", "largest_square"] } else { &["mean", "square"] }
    }

    fn check(&self) -> Result<()> {
        in_range("β₁", self.betas.0, 0.0..1.0)?;
        in_range("β₂", self.betas.1, 0.0..1.0)?;
        // A gradient of 0 is divided by it, in f32 as well.
        in_range("ε", self.epsilon, f64::from(f32::MIN_POSITIVE)..f64::INFINITY)?;
        in_range("the weight decay", self.weight_decay, 0.0..f64::INFINITY)
    }

    fn apply<E: Float>(
        &self,
        parameter: &mut [E],
        slots: &mut [AnyTensor<E>],
        gradient: &[E],
        step: Step,
    ) {
        adam(self, 1.0, parameter, slots, gradient, step);
    }
}

#[diagnostic::do_not_recommend]
impl UpdateRule for AdamW {
    const NAME: &'static str = "adamw";

    fn slots(&self) -> &'static [&'static str] {
        self.undecayed().slots()
    }

    fn check(&self) -> Result<()> {
        self.undecayed().check()?;
        in_range("the weight decay", self.weight_decay, 0.0..f64::INFINITY)
    }

    fn apply<E: Float>(
        &self,
        parameter: &mut [E],
        slots: &mut [AnyTensor<E>],
        gradient: &[E],
        step: Step,
    ) {
        let kept = 1.0 - step.rate * self.weight_decay;
        adam(&self.undecayed(), kept, parameter, slots, gradient, step);
    }
}

/// One update, of a parameter of which `kept` is left before it.
fn adam<E: Float>(
    rule: &Adam,
    kept: f64,
    parameter: &mut [E],
    slots: &mut [AnyTensor<E>],
    gradient: &[E],
    step: Step,
) {
    let wide = |x: f64| E::from_f64(x).wide();
    // Numbers beyond this have a power of 0.
    let update_number = i32::try_from(step.update).unwrap_or(i32::MAX);
    let corrected = |beta: f64| 1.0 - beta.powi(update_number);
    let (mean, square) = rule.betas;
    let moments = Moments {
        kept: wide(kept),
        decay: wide(rule.weight_decay),
        of_mean: wide(1.0 - mean),
        beta: wide(square),
        of_square: wide(1.0 - square),
        step: wide(step.rate / corrected(mean)),
        root: wide(corrected(square).sqrt().recip()),
        epsilon: wide(rule.epsilon),
    };
    match slots {
        [m, v] => update([parameter, m.packed_mut(), v.packed_mut()], gradient, moments),
        [m, v, largest] => {
            let buffers = [parameter, m.packed_mut(), v.packed_mut(), largest.packed_mut()];
            update(buffers, gradient, moments);
        }
        _ => unreachable!("a state has the slots of its rule"),
    }
}
