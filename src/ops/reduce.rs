//! Reductions over a named axis: the axis goes, the others stay.

use crate::axis::Axis;
use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::kernel::layout::View;
use crate::kernel::{reduce, scatter};
use crate::ops::pairs::product;
use crate::shape::{HasAxis, Marker, Shape};
use crate::tensor::{AnyTensor, Tensor};

// Written out, not made by a macro: a compile error quotes the method, and would quote all of the
// macro's call.
impl<S: Shape, E: Float> Tensor<S, E> {
    /// The sum along an axis; 0 along an empty one.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    ///
    /// # Numerics
    /// Pairwise, in f64 for f64, else in f32: the error grows with the logarithm of the length.
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
        Tensor::typed(self.shape().without(), self.any().sum(S::AT))
    }

    /// The mean along an axis; NaN along an empty one.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    pub fn mean<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        Tensor::typed(self.shape().without(), self.any().mean(S::AT))
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
        Tensor::typed(self.shape().without(), self.any().variance(S::AT))
    }

    /// The largest element along an axis; NaN if one is, −∞ along an empty axis. The first of equals gets
    /// the gradient.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    pub fn max<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        Tensor::typed(self.shape().without(), self.any().max(S::AT))
    }

    /// The smallest element along an axis; NaN if one is, ∞ along an empty axis. The first of equals gets
    /// the gradient.
    ///
    /// # Shapes
    /// The result has this tensor's axes without the named one.
    pub fn min<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Tensor<S::Without, E>
    where
        S: HasAxis<A, I>,
    {
        Tensor::typed(self.shape().without(), self.any().min(S::AT))
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The index of the largest element along an axis: the first of equals; NaN counts as largest.
    ///
    /// # Errors
    /// Where the axis is empty and the result is not.
    pub fn try_argmax<A: Axis, N, I: Marker>(
        &self,
        _axis: fn(N) -> A,
    ) -> Result<Tensor<S::Without, usize>>
    where
        S: HasAxis<A, I>,
    {
        let places = reduce::argmax(self.any().view(), S::AT);
        let result = Tensor::from_packed(self.shape().without(), places);
        if self.dims()[S::AT] == 0 && result.count() > 0 {
            return Err(Error::index(format!("the empty axis {} has no largest element", A::NAME)));
        }
        Ok(result)
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// The sum of all elements.
    pub fn sum_all(&self) -> Tensor<(), E> {
        Tensor::typed((), self.any().flattened().sum(0))
    }

    /// The mean of all elements; NaN of none.
    pub fn mean_all(&self) -> Tensor<(), E> {
        Tensor::typed((), self.any().flattened().mean(0))
    }
}

// The rules, in functions that know no shape.
impl<E: Float> AnyTensor<E> {
    pub(crate) fn sum(&self, at: usize) -> Self {
        self.without(at, reduce::sum(self.view(), at)).recorded_from(self, || {
            let dims = self.layout().dims;
            move |g| g.repeated(&dims, at)
        })
    }

    pub(crate) fn mean(&self, at: usize) -> Self {
        self.without(at, reduce::mean(self.view(), at)).recorded_from(self, || {
            let dims = self.layout().dims;
            move |g| g.mul_number(share(dims[at])).repeated(&dims, at)
        })
    }

    fn variance(&self, at: usize) -> Self {
        self.without(at, reduce::variance(self.view(), at)).recorded_from(self, || {
            let x = self.detached();
            move |g| {
                let (dims, n) = (x.layout().dims, x.dims()[at]);
                let mean = x.without(at, reduce::mean(x.view(), at)).repeated(&dims, at);
                let distance = x.paired(&mean, |x, mean| x - mean);
                g.mul_number(2.0 * share(n)).repeated(&dims, at).paired(&distance, product)
            }
        })
    }

    fn max(&self, at: usize) -> Self {
        let result = self.without(at, reduce::max(self.view(), at));
        result.recorded_from(self, || self.to_place(at, reduce::argmax))
    }

    fn min(&self, at: usize) -> Self {
        let result = self.without(at, reduce::min(self.view(), at));
        result.recorded_from(self, || self.to_place(at, reduce::argmin))
    }

    /// The rule by which one place of each line, which `find` gives, gets the gradient.
    fn to_place(
        &self,
        at: usize,
        find: fn(View<E>, usize) -> Vec<usize>,
    ) -> impl Fn(&Self) -> Self + use<E> {
        let x = self.detached();
        move |g| {
            let places = find(x.view(), at);
            let g = g.viewed(g.layout().expanded(at));
            Self::from_packed(x.dims(), scatter::along(g.view(), at, &places, x.dims()[at]))
        }
    }

    /// `data` over this tensor's axes but `at`.
    fn without(&self, at: usize, data: Vec<E>) -> Self {
        Self::from_packed(&self.layout().dims.removed(at), data)
    }

    /// This tensor, repeated along axis `at` of `dims`.
    fn repeated(&self, dims: &[usize], at: usize) -> Self {
        let others: Vec<_> = (0..dims.len()).filter(|&axis| axis != at).collect();
        self.stretched(dims, &others)
    }
}

#[allow(clippy::cast_precision_loss, reason = "lengths below 2^53 are exact")]
fn share(n: usize) -> f64 {
    1.0 / n as f64
}
