//! Reductions over a named axis: the axis goes, the others stay.

use crate::axis::Axis;
use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::kernel::reduce;
use crate::shape::{HasAxis, Marker, Shape};
use crate::tensor::Tensor;

// Written out, not made by a macro: a compile error quotes the method, and would quote all of the
// macro's call.
impl<S: Shape, E: Float> Tensor<S, E> {
    /// The sum along an axis; 0 along an empty one.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    ///
    /// # Numerics
    /// Pairwise, in f32 for f32 and f64 for f64: the error grows with the logarithm of the length.
    ///
    /// # Compile errors
    /// `axis_must_be_one_of_the_tensors`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Model, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<2>>, Model<C<3>>)>::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.sum(Model).to_vec(), [6.0, 15.0]);
    /// assert_eq!(x.sum(Batch).to_vec(), [5.0, 7.0, 9.0]);
    /// ```
    pub fn sum<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        self.reduced(reduce::sum(self.any().view(), S::AT))
    }

    /// The mean along an axis; NaN along an empty one.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    pub fn mean<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        self.reduced(reduce::mean(self.any().view(), S::AT))
    }

    /// The mean squared distance from the mean (the biased variance: divided by n, not n − 1); NaN
    /// along an empty axis.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    pub fn variance<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        self.reduced(reduce::variance(self.any().view(), S::AT))
    }

    /// The largest element along an axis; NaN if one is, −∞ along an empty axis.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    pub fn max<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        self.reduced(reduce::max(self.any().view(), S::AT))
    }

    /// The smallest element along an axis; NaN if one is, ∞ along an empty axis.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    pub fn min<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        self.reduced(reduce::min(self.any().view(), S::AT))
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The index of the largest element along an axis: the first of equals; NaN counts as largest.
    ///
    /// # Errors
    /// Where the axis is empty and the result is not.
    pub fn argmax<A: Axis, N, I: Marker>(
        &self,
        _axis: fn(N) -> A,
    ) -> Result<Tensor<S::Without, usize>>
    where
        S: HasAxis<A, I>,
    {
        let result = self.reduced(reduce::argmax(self.any().view(), S::AT));
        if self.dims()[S::AT] == 0 && result.count() > 0 {
            return Err(Error::index(format!("the empty axis {} has no largest element", A::NAME)));
        }
        Ok(result)
    }

    fn reduced<A, I: Marker, F: Element>(&self, data: Vec<F>) -> Tensor<S::Without, F>
    where
        S: HasAxis<A, I>,
    {
        Tensor::from_packed(self.shape().without(), data)
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// The sum of all elements.
    pub fn sum_all(&self) -> Tensor<(), E> {
        let flat = self.any().flattened();
        Tensor::from_packed((), reduce::sum(flat.view(), 0))
    }

    /// The mean of all elements; NaN of none.
    pub fn mean_all(&self) -> Tensor<(), E> {
        let flat = self.any().flattened();
        Tensor::from_packed((), reduce::mean(flat.view(), 0))
    }
}
