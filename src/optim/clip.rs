//! Gradients kept within bounds.

use super::optimizer::in_range;
use crate::autodiff::Gradients;
use crate::error::{Error, Result};

/// Added to a norm before it divides, as usual.
const EPSILON: f64 = 1e-6;

impl Gradients {
    /// Scales all gradients by one number, so that their norm is at most `limit`; gives the norm that they
    /// had.
    ///
    /// g ← g · min(1, limit / (‖g‖ + 10⁻⁶)), where ‖g‖ is over all parameters together.
    ///
    /// # Errors
    /// Where `limit` is not positive and finite, or the norm is not finite: no factor would mend that. The
    /// gradients are as they were.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Mode, Model, Parameter, Tensor, Train, C};
    ///
    /// let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
    /// let mut train = Train::seeded(1);
    /// let x = train.read(&p);
    /// let mut gradients = train.backward(&x.mul(&x).sum_all());
    /// assert_eq!(gradients.try_clip_norm(1.0)?, 10.0);
    /// assert!(gradients.of(&p).all_close(&Tensor::from([0.6, 0.8]), 1e-5, 0.0));
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    ///
    /// # References
    /// Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013,
    /// algorithm 1.
    pub fn try_clip_norm(&mut self, limit: f64) -> Result<f64> {
        positive("the limit of the norm", limit)?;
        let norm = self.norm();
        if !norm.is_finite() {
            return Err(Error::value(format!("expected a finite norm of gradients, found {norm}")));
        }
        let factor = limit / (norm + EPSILON);
        if factor < 1.0 {
            self.scale(factor);
        }
        Ok(norm)
    }

    /// Moves every element of every gradient to the nearest number in −limit..=limit. NaN stays NaN.
    ///
    /// # Errors
    /// Where `limit` is not positive and finite; the gradients are as they were.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Mode, Model, Parameter, Tensor, Train, C};
    ///
    /// let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([0.25, -4.0]));
    /// let mut train = Train::seeded(1);
    /// let x = train.read(&p);
    /// let mut gradients = train.backward(&x.mul(&x).sum_all());
    /// gradients.try_clip_values(1.0)?;
    /// assert_eq!(gradients.of(&p).to_vec(), [0.5, -1.0]);
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn try_clip_values(&mut self, limit: f64) -> Result<()> {
        positive("the limit of the values", limit)?;
        self.clamp(limit);
        Ok(())
    }
}

fn positive(what: &str, limit: f64) -> Result<()> {
    in_range(what, limit, f64::MIN_POSITIVE..f64::INFINITY)
}
