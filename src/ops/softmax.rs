//! Softmax over a named axis.

use crate::axis::Axis;
use crate::element::Float;
use crate::kernel::softmax;
use crate::shape::{BroadcastsTo, HasAxis, Marker, Shape};
use crate::tensor::{AnyTensor, Tensor};

impl<S: Shape, E: Float> Tensor<S, E> {
    /// softmax(x)ᵢ = exp(xᵢ − m) / Σⱼ exp(xⱼ − m) along an axis, m its largest element.
    ///
    /// # Numerics
    /// Accumulates in f32 for f32 and f64 for f64. A score of −∞ gets weight 0, as a hidden one
    /// does; where all are, all weights are 0. NaN makes its own row NaN and no other.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Key, Query, Tensor, C};
    ///
    /// let scores = Tensor::<(Query<C<1>>, Key<C<3>>)>::from([[200.0, 200.0, 0.0]]);
    /// assert_eq!(scores.softmax(Key).to_vec(), [0.5, 0.5, 0.0]);
    /// ```
    pub fn softmax<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Self
    where
        S: HasAxis<A, I>,
    {
        self.over_scores(softmax::softmax(self.any().view(), S::AT, None))
    }

    /// [`softmax`](Self::softmax) over the entries where `keep` is true; the others get weight 0,
    /// whatever their score. Where none is kept, all weights are 0.
    ///
    /// # Shapes
    /// `keep` broadcasts by name.
    pub fn masked_softmax<A: Axis, N, I: Marker, R, How: Marker>(
        &self,
        _axis: fn(N) -> A,
        keep: &Tensor<R, bool>,
    ) -> Self
    where
        S: HasAxis<A, I>,
        R: BroadcastsTo<S, How>,
    {
        self.over_scores(softmax::softmax(self.any().view(), S::AT, Some(self.stretched(keep))))
    }

    /// ln softmax(x) along an axis, without the detour; −∞ where the weight is 0.
    pub fn log_softmax<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Self
    where
        S: HasAxis<A, I>,
    {
        self.over_scores(softmax::log_softmax(self.any().view(), S::AT, None))
    }

    /// [`log_softmax`](Self::log_softmax) over the entries where `keep` is true; −∞ for the others.
    ///
    /// # Shapes
    /// `keep` broadcasts by name.
    pub fn masked_log_softmax<A: Axis, N, I: Marker, R, How: Marker>(
        &self,
        _axis: fn(N) -> A,
        keep: &Tensor<R, bool>,
    ) -> Self
    where
        S: HasAxis<A, I>,
        R: BroadcastsTo<S, How>,
    {
        self.over_scores(softmax::log_softmax(self.any().view(), S::AT, Some(self.stretched(keep))))
    }

    fn over_scores(&self, data: Vec<E>) -> Self {
        Tensor::typed(self.shape(), AnyTensor::from_packed(self.dims(), data))
    }
}
