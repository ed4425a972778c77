//! Losses scaled up, so that gradients in f16 do not vanish.

use super::Optimizer;
use crate::autodiff::Gradients;
use crate::element::Float;
use crate::nn::Train;
use crate::shape::ScalarLoss;
use crate::tensor::Tensor;

/// What a loss is multiplied by before its gradients are taken: they are divided by it again.
///
/// Gradients in [`f16`](struct@crate::f16) are often below its least number, 6·10⁻⁸, and would become 0. A factor
/// moves them up; where it moves one beyond 65504, that step is skipped and the factor halved. After 2000
/// steps in a row without that it is doubled. `bf16` and wider types need none.
///
/// # Examples
/// ```
/// use shapeproof::{
///     Batch, Bias, C, Generator, Hidden, Linear, LossScale, Model, Optimizer, Sgd, Tensor, Train, f16,
/// };
///
/// let mut generator = Generator::seeded(1);
/// let mut layer: Linear<Model<C<4>>, Hidden<C<2>>, Bias, f16> = Linear::xavier(&mut generator);
/// let x = Tensor::<(Batch<C<8>>, Model<C<4>>), f16>::normal(0.0, 0.1, &mut generator);
/// let mut optimizer = Optimizer::try_new(Sgd::default())?.scaling_losses(LossScale::default());
///
/// for step in 0..10 {
///     let mut train = Train::seeded(step);
///     let y = layer.forward(&x, &mut train).to::<f32>();
///     let loss = y.mul(&y).mean_all();
///     if let Some(mut gradients) = optimizer.backward(&train, &loss) {
///         gradients.try_clip_norm(1.0)?;
///         optimizer.step(&mut layer, &gradients, 1e-2)?;
///     }
/// }
/// assert_eq!(optimizer.loss_scale().map(LossScale::skipped), Some(0));
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Micikevicius et al., "Mixed Precision Training", 2018, section 3.2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    factor: f64,
    good: u32,
    skipped: u64,
}

/// Steps in a row after which the factor is doubled.
const INTERVAL: u32 = 2000;
/// The greatest factor that f16 holds, and so does a loss of size 1 times it.
const FIRST: f64 = 32_768.0;
/// The factor stays between this and its reciprocal.
const MOST: f64 = 16_777_216.0;

impl Default for LossScale {
    /// 32768, as much as a loss in f16 allows. One that is taken in f32 lets it grow to 2²⁴.
    fn default() -> Self {
        LossScale { factor: FIRST, good: 0, skipped: 0 }
    }
}

impl LossScale {
    /// What losses are multiplied by now.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// How many steps were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Notes whether a step's gradients were finite.
    fn note(&mut self, finite: bool) {
        if !finite {
            (self.factor, self.good) = ((self.factor * 0.5).max(MOST.recip()), 0);
            self.skipped = self.skipped.saturating_add(1);
            return;
        }
        self.good += 1;
        if self.good >= INTERVAL {
            (self.factor, self.good) = ((self.factor * 2.0).min(MOST), 0);
        }
    }

    /// All of it as numbers.
    #[cfg(feature = "files")]
    #[allow(clippy::cast_precision_loss, reason = "nobody skips 2⁵³ steps")]
    pub(crate) fn to_numbers(self) -> [f64; 3] {
        [self.factor, f64::from(self.good), self.skipped as f64]
    }

    /// That of these numbers; `None` where they are none's.
    #[cfg(feature = "files")]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    pub(crate) fn from_numbers([factor, good, skipped]: [f64; 3]) -> Option<Self> {
        let is_whole = |x: f64, most: f64| (0.0..most).contains(&x) && x.fract() == 0.0;
        let is_state = (MOST.recip()..=MOST).contains(&factor)
            && is_whole(good, f64::from(INTERVAL))
            && is_whole(skipped, 2f64.powi(53));
        is_state.then_some(LossScale { factor, good: good as u32, skipped: skipped as u64 })
    }
}

impl<R> Optimizer<R> {
    /// With losses scaled up before their gradients are taken: for models in `f16`.
    pub fn scaling_losses(mut self, scale: LossScale) -> Self {
        self.loss_scale = Some(scale);
        self
    }

    /// How losses are scaled, where they are.
    pub fn loss_scale(&self) -> Option<&LossScale> {
        self.loss_scale.as_ref()
    }

    /// The gradients of `loss`, as [`Train::backward`] gives them; where losses are scaled, of the scaled
    /// loss, divided by the factor again. `None` where the factor was too large: then this step is to be
    /// skipped, which has been counted.
    ///
    /// # Shapes
    /// `loss` has no axis.
    ///
    /// # Numerics
    /// The factor is a power of two, so dividing in f32 is exact. A loss in f16 times the factor must be
    /// in f16: [`to`](Tensor::to) f32 before the mean is taken, and it need not.
    pub fn backward<S: ScalarLoss, E: Float>(
        &mut self,
        train: &Train,
        loss: &Tensor<S, E>,
    ) -> Option<Gradients> {
        let Some(scale) = &mut self.loss_scale else { return Some(train.backward(loss)) };
        let factor = scale.factor;
        let mut gradients = train.backward_from(loss, factor);
        let finite = gradients.is_finite();
        scale.note(finite);
        finite.then(|| {
            gradients.scale(factor.recip());
            gradients
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_backs_off_on_overflow_and_grows_again() {
        let mut scale = LossScale::default();
        scale.note(false);
        assert_eq!((scale.factor(), scale.skipped()), (16_384.0, 1));
        for step in 1..=2 * INTERVAL {
            scale.note(true);
            let doublings = i32::try_from(step / INTERVAL).unwrap();
            assert_eq!(scale.factor(), 16_384.0 * 2f64.powi(doublings), "{step}");
        }
        (0..INTERVAL - 1).for_each(|_| scale.note(true));
        scale.note(false);
        assert_eq!((scale.factor(), scale.good, scale.skipped()), (32_768.0, 0, 2));
        (0..100).for_each(|_| scale.note(false));
        assert_eq!((scale.factor(), scale.skipped()), (MOST.recip(), 102));
    }

    #[cfg(feature = "files")]
    #[test]
    fn numbers_stand_for_one_scale_or_none() {
        let scale = LossScale { factor: 512.0, good: 77, skipped: 3 };
        assert_eq!(LossScale::from_numbers(scale.to_numbers()), Some(scale));
        for wrong in [[0.0, 0.0, 0.0], [f64::NAN, 0.0, 0.0], [2.0, 2000.0, 0.0], [2.0, 0.0, 0.5]] {
            assert_eq!(LossScale::from_numbers(wrong), None);
        }
    }
}
