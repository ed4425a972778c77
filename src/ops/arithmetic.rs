//! Addition and its kin, with broadcasting by axis name.

use crate::element::{Element, Float};
use crate::kernel::elementwise::{zip, zip3};
use crate::kernel::layout::View;
use crate::shape::{BroadcastsTo, Marker, Shape};
use crate::tensor::{AnyTensor, Tensor};
use num_traits::Float as _;

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The right side stretched over this tensor's axes, without copying.
    pub(crate) fn stretched<'a, R, F: Element, How: Marker>(
        &self,
        right: &'a Tensor<R, F>,
    ) -> View<'a, F>
    where
        R: BroadcastsTo<S, How>,
    {
        let mut view = right.any().view();
        view.layout = view.layout.broadcast(self.dims(), &R::positions());
        view
    }

    pub(crate) fn zipped<R, F: Element, G: Element, How: Marker>(
        &self,
        right: &Tensor<R, F>,
        f: impl Fn(E, F) -> G + Sync,
    ) -> Tensor<S, G>
    where
        R: BroadcastsTo<S, How>,
    {
        let data = zip(self.any().view(), self.stretched(right), f);
        Tensor::typed(self.shape(), AnyTensor::from_packed(self.dims(), data))
    }
}

// Written out, not made by a macro: a compile error quotes the method, and would quote all of the
// macro's call.
impl<S: Shape, E: Float> Tensor<S, E> {
    /// Adds, element by element.
    ///
    /// # Shapes
    /// `right` has some of this tensor's axes, with the same names, sizes and order; the axes that it
    /// lacks repeat. The result has this tensor's shape.
    ///
    /// # Compile errors
    /// `bias_must_broadcast_by_name`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Model, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<2>>, Model<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let each = Tensor::<(Batch<C<2>>,)>::from([10.0, 20.0]);
    /// assert_eq!(x.add(&each).to_vec(), [11.0, 12.0, 23.0, 24.0]);
    /// ```
    pub fn add<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, |a, b| E::narrow(a.wide() + b.wide()))
    }

    /// Subtracts, element by element.
    ///
    /// # Shapes
    /// `right` has some of this tensor's axes, with the same names, sizes and order; the axes that it
    /// lacks repeat. The result has this tensor's shape.
    pub fn sub<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, |a, b| E::narrow(a.wide() - b.wide()))
    }

    /// Multiplies, element by element.
    ///
    /// # Shapes
    /// `right` has some of this tensor's axes, with the same names, sizes and order; the axes that it
    /// lacks repeat. The result has this tensor's shape.
    pub fn mul<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, |a, b| E::narrow(a.wide() * b.wide()))
    }

    /// Divides, element by element.
    ///
    /// # Shapes
    /// `right` has some of this tensor's axes, with the same names, sizes and order; the axes that it
    /// lacks repeat. The result has this tensor's shape.
    pub fn div<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, |a, b| E::narrow(a.wide() / b.wide()))
    }

    /// Adds one number.
    pub fn add_scalar(&self, number: f64) -> Self {
        let number = E::from_f64(number).wide();
        self.map(move |value| E::narrow(value.wide() + number))
    }

    /// Subtracts one number.
    pub fn sub_scalar(&self, number: f64) -> Self {
        let number = E::from_f64(number).wide();
        self.map(move |value| E::narrow(value.wide() - number))
    }

    /// Multiplies by one number.
    pub fn mul_scalar(&self, number: f64) -> Self {
        let number = E::from_f64(number).wide();
        self.map(move |value| E::narrow(value.wide() * number))
    }

    /// Divides by one number.
    pub fn div_scalar(&self, number: f64) -> Self {
        let number = E::from_f64(number).wide();
        self.map(move |value| E::narrow(value.wide() / number))
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// Each element raised to the power in `exponent`, which broadcasts by name.
    pub fn pow<R, How: Marker>(&self, exponent: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(exponent, |a, b| E::narrow(a.wide().powf(b.wide())))
    }

    /// Each element raised to the power `exponent`.
    pub fn pow_scalar(&self, exponent: f64) -> Self {
        let exponent = E::from_f64(exponent).wide();
        self.map(move |value| E::narrow(value.wide().powf(exponent)))
    }

    /// The larger of the two, element by element; NaN where either is.
    pub fn maximum<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, |a, b| if a > b || a.wide().is_nan() { a } else { b })
    }

    /// The smaller of the two, element by element; NaN where either is.
    pub fn minimum<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, |a, b| if a < b || a.wide().is_nan() { a } else { b })
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// This tensor's element where `condition` is true, `otherwise`'s where it is false; both
    /// broadcast by name.
    ///
    /// ```
    /// use shapeproof::{Batch, Key, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<2>>, Key<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let keep = Tensor::<(Key<C<2>>,), bool>::from([true, false]);
    /// assert_eq!(x.where_or(&keep, &Tensor::scalar(0.0)).to_vec(), [1.0, 0.0, 3.0, 0.0]);
    /// ```
    pub fn where_or<R, T, How: Marker, Too: Marker>(
        &self,
        condition: &Tensor<R, bool>,
        otherwise: &Tensor<T, E>,
    ) -> Self
    where
        R: BroadcastsTo<S, How>,
        T: BroadcastsTo<S, Too>,
    {
        let (condition, otherwise) = (self.stretched(condition), self.stretched(otherwise));
        let data =
            zip3(self.any().view(), condition, otherwise, |a, keep, b| if keep { a } else { b });
        Tensor::typed(self.shape(), AnyTensor::from_packed(self.dims(), data))
    }
}
