//! Addition and its kin, with broadcasting by axis name.

use crate::element::{Element, Float};
use crate::shape::{BroadcastsTo, Marker, Shape};
use crate::tensor::Tensor;

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
        Tensor::typed(self.shape(), self.any().add(right.any(), &R::positions()))
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
        Tensor::typed(self.shape(), self.any().sub(right.any(), &R::positions()))
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
        Tensor::typed(self.shape(), self.any().mul(right.any(), &R::positions()))
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
        Tensor::typed(self.shape(), self.any().div(right.any(), &R::positions()))
    }

    /// Adds one number.
    pub fn add_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().add_number(number))
    }

    /// Subtracts one number.
    pub fn sub_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().sub_number(number))
    }

    /// Multiplies by one number.
    pub fn mul_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().mul_number(number))
    }

    /// Divides by one number.
    pub fn div_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().div_number(number))
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// Adds to each element: [`add`](Self::add) without new memory, unless the elements are shared with
    /// another tensor, which keeps them, or lie in memory out of order.
    ///
    /// # Shapes
    /// `right` has some of this tensor's axes, with the same names, sizes and order; the axes that it
    /// lacks repeat.
    ///
    /// # Compile errors
    /// As [`add`](Self::add).
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Model, Tensor, C};
    ///
    /// let mut x = Tensor::<(Batch<C<2>>, Model<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let before = x.clone();
    /// x.add_in_place(&Tensor::<(Model<C<2>>,)>::from([10.0, 20.0]));
    /// assert_eq!(x.to_vec(), [11.0, 22.0, 13.0, 24.0]);
    /// assert_eq!(before.to_vec(), [1.0, 2.0, 3.0, 4.0]);
    /// ```
    pub fn add_in_place<R, How: Marker>(&mut self, right: &Tensor<R, E>)
    where
        R: BroadcastsTo<S, How>,
    {
        self.any_mut().add_in_place(right.any(), &R::positions());
    }

    /// Subtracts from each element, in place as [`add_in_place`](Self::add_in_place).
    ///
    /// # Shapes
    /// `right` has some of this tensor's axes, with the same names, sizes and order; the axes that it
    /// lacks repeat.
    pub fn sub_in_place<R, How: Marker>(&mut self, right: &Tensor<R, E>)
    where
        R: BroadcastsTo<S, How>,
    {
        self.any_mut().sub_in_place(right.any(), &R::positions());
    }

    /// Multiplies each element, in place as [`add_in_place`](Self::add_in_place).
    ///
    /// # Shapes
    /// `right` has some of this tensor's axes, with the same names, sizes and order; the axes that it
    /// lacks repeat.
    pub fn mul_in_place<R, How: Marker>(&mut self, right: &Tensor<R, E>)
    where
        R: BroadcastsTo<S, How>,
    {
        self.any_mut().mul_in_place(right.any(), &R::positions());
    }

    /// Adds one number to each element, in place as [`add_in_place`](Self::add_in_place).
    pub fn add_scalar_in_place(&mut self, number: f64) {
        self.any_mut().add_number_in_place(number);
    }

    /// Subtracts one number from each element, in place as [`add_in_place`](Self::add_in_place).
    pub fn sub_scalar_in_place(&mut self, number: f64) {
        self.any_mut().sub_number_in_place(number);
    }

    /// Multiplies each element by one number, in place as [`add_in_place`](Self::add_in_place).
    pub fn mul_scalar_in_place(&mut self, number: f64) {
        self.any_mut().mul_number_in_place(number);
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// Each element raised to the power in `exponent`, which broadcasts by name.
    pub fn pow<R, How: Marker>(&self, exponent: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        Tensor::typed(self.shape(), self.any().pow(exponent.any(), &R::positions()))
    }

    /// Each element raised to the power `exponent`.
    pub fn pow_scalar(&self, exponent: f64) -> Self {
        Tensor::typed(self.shape(), self.any().pow_number(exponent))
    }

    /// The larger of the two, element by element; NaN where either is. Equals get half of the gradient
    /// each.
    pub fn maximum<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        Tensor::typed(self.shape(), self.any().maximum(right.any(), &R::positions()))
    }

    /// The smaller of the two, element by element; NaN where either is. Equals get half of the gradient
    /// each.
    pub fn minimum<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        Tensor::typed(self.shape(), self.any().minimum(right.any(), &R::positions()))
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// This tensor's element where `condition` is true, `otherwise`'s where it is false; both
    /// broadcast by name. What is not taken has gradient 0, also where it is NaN.
    ///
    /// # Examples
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
        let condition = condition.any().stretched(self.dims(), &R::positions());
        let any = self.any().where_or(&condition, otherwise.any(), &T::positions());
        Tensor::typed(self.shape(), any)
    }
}
