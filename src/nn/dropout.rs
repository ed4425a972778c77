//! Dropout.

use super::Mode;
use crate::element::Float;
use crate::error::{Error, Result};
use crate::kernel::dropout::Dropout as Mask;
use crate::shape::Shape;
use crate::tensor::{AnyTensor, Tensor};

/// Sets each element to 0 with probability p and scales the others by 1/(1 − p), in training alone.
///
/// Under [`Infer`](crate::Infer) it returns its input, bit for bit: that is a matter of the mode's
/// type, not of a switch that can be left on.
///
/// # Examples
/// ```
/// use shapeproof::{Dropout, Infer, Model, Tensor, Train, C};
///
/// let dropout = Dropout::try_new(0.5)?;
/// let x = Tensor::<(Model<C<8>>,)>::ones();
/// assert_eq!(dropout.forward(&x, &mut Infer), x);
/// assert!(dropout.forward(&x, &mut Train::seeded(1)).to_vec().iter().all(|&y| y == 0.0 || y == 2.0));
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Srivastava et al., "Dropout", 2014, in its inverted form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "f64", into = "f64"))]
pub struct Dropout {
    probability: f64,
}

impl TryFrom<f64> for Dropout {
    type Error = Error;
    fn try_from(probability: f64) -> Result<Self> {
        Dropout::try_new(probability)
    }
}

impl From<Dropout> for f64 {
    fn from(dropout: Dropout) -> f64 {
        dropout.probability
    }
}

impl Dropout {
    /// No dropout: the same as a probability of 0.
    pub const NONE: Dropout = Dropout { probability: 0.0 };

    /// Dropout with this probability of 0.
    ///
    /// # Errors
    /// Where `probability` is not in 0..=1.
    pub fn try_new(probability: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(Error::value(format!(
                "expected a probability in 0..=1, found {probability}"
            )));
        }
        Ok(Dropout { probability })
    }

    /// The probability of 0.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// `x`, with dropout in training.
    pub fn forward<S: Shape, E: Float>(
        &self,
        x: &Tensor<S, E>,
        mode: &mut impl Mode,
    ) -> Tensor<S, E> {
        self.of(x.clone(), mode)
    }

    /// As [`forward`](Self::forward), of a tensor that the caller has no other use for.
    pub(super) fn of<S: Shape, E: Float>(
        &self,
        x: Tensor<S, E>,
        mode: &mut impl Mode,
    ) -> Tensor<S, E> {
        let Some(generator) = mode.generator().filter(|_| self.probability > 0.0) else {
            return x;
        };
        let mask = Mask::new(self.probability, generator.bits());
        Tensor::typed(x.shape(), dropped(x.any(), mask))
    }
}

/// x with the numbers dropped that the mask says, and of the gradient the same ones. Knows no shape, so that
/// it is compiled once for all.
fn dropped<E: Float>(x: &AnyTensor<E>, mask: Mask) -> AnyTensor<E> {
    AnyTensor::from_packed(x.dims(), mask.of(x.view())).recorded_from(x, || {
        move |g: &AnyTensor<E>| AnyTensor::from_packed(g.dims(), mask.of(g.view()))
    })
}
