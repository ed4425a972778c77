//! What `backward` returns.

use crate::kernel::reduce::sum_of_squares;
use crate::tensor::{FloatTensor, ParameterId, with_elements};
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};

/// The gradients of a loss with respect to parameters, from [`Train::backward`](crate::Train::backward).
///
/// # Examples
/// ```
/// use shapeproof::{Mode, Model, Parameter, Tensor, Train, C};
///
/// let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]));
/// let mut train = Train::seeded(1);
/// let x = train.read(&p);
/// let loss = x.mul(&x).sum_all().mul_scalar(0.5);
///
/// let mut gradients = train.backward(&loss);
/// assert_eq!(gradients.of(&p).to_vec(), [3.0, 4.0]);
/// assert_eq!(gradients.norm(), 5.0);
///
/// gradients.scale(1.0 / gradients.norm()); // clipped to norm 1
/// assert!(gradients.of(&p).all_close(&Tensor::from([0.6, 0.8]), 1e-6, 0.0));
/// ```
#[derive(Clone, Default)]
pub struct Gradients(BTreeMap<ParameterId, FloatTensor>);

impl Gradients {
    /// The gradient of the parameter with this identity, in the parameter's own sizes and, but for half
    /// types, whose gradients are `f32`, elements; `None` where the loss does not depend on it.
    pub fn find(&self, id: ParameterId) -> Option<&FloatTensor> {
        self.0.get(&id)
    }

    /// The square root of the sum of the squares of all elements of all gradients: the length of the
    /// gradient.
    ///
    /// # Numerics
    /// Accumulates in f64, the parameters in the order in which they were made.
    pub fn norm(&self) -> f64 {
        let squares =
            |gradient: &FloatTensor| with_elements!(gradient, g => sum_of_squares(g.view()));
        self.0.values().map(squares).fold(0.0, |sum: f64, square| sum + square).sqrt()
    }

    /// Multiplies all gradients by one number.
    pub fn scale(&mut self, factor: f64) {
        self.0.values_mut().for_each(|gradient| gradient.scale_in_place(factor));
    }

    /// Adds the gradients of another loss, as those of the micro-batches of one step are added.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Gradients, Mode, Model, Parameter, Tensor, Train, C};
    ///
    /// let p = Parameter::new(Tensor::<(Model<C<1>>,)>::from([3.0]));
    /// let mut train = Train::seeded(1);
    /// let mut sum = Gradients::default();
    /// for factor in [1.0, 10.0] {
    ///     let loss = train.read(&p).mul_scalar(factor).sum_all();
    ///     sum.add(&train.backward(&loss));
    /// }
    /// assert_eq!(sum.of(&p).to_vec(), [11.0]);
    /// ```
    pub fn add(&mut self, other: &Gradients) {
        for (&id, gradient) in &other.0 {
            self.add_to(id, gradient.clone());
        }
    }

    /// Whether no element is NaN or infinite.
    pub fn is_finite(&self) -> bool {
        self.0.values().all(FloatTensor::is_finite)
    }

    /// Whether there is no gradient at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves every element to the nearest number in −limit..=limit.
    pub(crate) fn clamp(&mut self, limit: f64) {
        self.0.values_mut().for_each(|gradient| gradient.clamp_in_place(limit));
    }

    pub(super) fn add_to(&mut self, id: ParameterId, gradient: FloatTensor) {
        match self.0.get_mut(&id) {
            Some(sum) => sum.add_in_place(&gradient),
            None => _ = self.0.insert(id, gradient.widened()),
        }
    }
}

/// How many parameters have a gradient, and its length.
impl Debug for Gradients {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gradients")
            .field("parameters", &self.0.len())
            .field("norm", &self.norm())
            .finish()
    }
}
