//! Softmax over a named axis.

use crate::axis::Axis;
use crate::element::Float;
use crate::kernel::softmax::Softmax;
use crate::shape::{BroadcastsTo, HasAxis, Marker, Shape};
use crate::tensor::{AnyTensor, Tensor};

impl<S: Shape, E: Float> Tensor<S, E> {
    /// softmax(x)ᵢ = exp(xᵢ − m) / Σⱼ exp(xⱼ − m) along an axis, m its largest element.
    ///
    /// # Numerics
    /// Accumulates in f64 for f64, else in f32. A score of −∞ gets weight 0, as a hidden one
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
        Tensor::typed(self.shape(), self.any().softmax(Softmax::Weights, S::AT, None))
    }

    /// Puts the [`softmax`](Self::softmax) along an axis in the place of the scores. Takes no new memory
    /// where the axis is the last one, unless the elements are shared with another tensor, which keeps
    /// them, or lie in memory out of order.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Key, Query, Tensor, C};
    ///
    /// let mut scores = Tensor::<(Query<C<1>>, Key<C<3>>)>::from([[200.0, 200.0, 0.0]]);
    /// let before = scores.clone();
    /// scores.softmax_in_place(Key);
    /// assert_eq!(scores.to_vec(), [0.5, 0.5, 0.0]);
    /// assert_eq!(before.to_vec(), [200.0, 200.0, 0.0]);
    /// ```
    pub fn softmax_in_place<A: Axis, N, I: Marker>(&mut self, _axis: fn(N) -> A)
    where
        S: HasAxis<A, I>,
    {
        self.any_mut().softmax_in_place(S::AT);
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
        let keep = keep.any().stretched(self.dims(), &R::positions());
        Tensor::typed(self.shape(), self.any().softmax(Softmax::Weights, S::AT, Some(&keep)))
    }

    /// ln softmax(x) along an axis, without the detour; −∞ where the weight is 0.
    pub fn log_softmax<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Self
    where
        S: HasAxis<A, I>,
    {
        Tensor::typed(self.shape(), self.any().softmax(Softmax::Logarithms, S::AT, None))
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
        let keep = keep.any().stretched(self.dims(), &R::positions());
        Tensor::typed(self.shape(), self.any().softmax(Softmax::Logarithms, S::AT, Some(&keep)))
    }
}

impl<E: Float> AnyTensor<E> {
    /// `keep` has this tensor's sizes.
    pub(crate) fn softmax(&self, kind: Softmax, at: usize, keep: Option<&AnyTensor<bool>>) -> Self {
        let data = E::softmax(kind, self.view(), at, keep.map(AnyTensor::view));
        Self::from_packed(self.dims(), data).recorded_with(self, |y| {
            move |g| Self::from_packed(y.dims(), E::softmax_backward(kind, y.view(), g.view(), at))
        })
    }

    fn softmax_in_place(&mut self, at: usize) {
        if self.is_recorded() || at + 1 != self.rank() {
            *self = self.softmax(Softmax::Weights, at, None);
            return;
        }
        let n = self.dims()[at];
        self.update(
            |scores| E::softmax_in_place(Softmax::Weights, scores, n),
            |scores| E::softmax(Softmax::Weights, scores, at, None),
        );
    }
}
