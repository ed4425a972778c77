//! Addition and its kin, with broadcasting by axis name.

use crate::element::{Element, Float};
use crate::kernel::elementwise::{zip, zip_in_place, zip3};
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
        self.with_data(zip(self.any().view(), self.stretched(right), f))
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
        self.zipped(right, sum)
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
        self.zipped(right, difference)
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
        self.zipped(right, product)
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
        self.zipped(right, quotient)
    }

    /// Adds one number.
    pub fn add_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().with_number(number, sum))
    }

    /// Subtracts one number.
    pub fn sub_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().with_number(number, difference))
    }

    /// Multiplies by one number.
    pub fn mul_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().with_number(number, product))
    }

    /// Divides by one number.
    pub fn div_scalar(&self, number: f64) -> Self {
        Tensor::typed(self.shape(), self.any().with_number(number, quotient))
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
        let right = self.stretched(right);
        self.any_mut().zip_in_place(right, sum);
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
        let right = self.stretched(right);
        self.any_mut().zip_in_place(right, difference);
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
        let right = self.stretched(right);
        self.any_mut().zip_in_place(right, product);
    }

    /// Adds one number to each element, in place as [`add_in_place`](Self::add_in_place).
    pub fn add_scalar_in_place(&mut self, number: f64) {
        self.any_mut().with_number_in_place(number, sum);
    }

    /// Subtracts one number from each element, in place as [`add_in_place`](Self::add_in_place).
    pub fn sub_scalar_in_place(&mut self, number: f64) {
        self.any_mut().with_number_in_place(number, difference);
    }

    /// Multiplies each element by one number, in place as [`add_in_place`](Self::add_in_place).
    pub fn mul_scalar_in_place(&mut self, number: f64) {
        self.any_mut().with_number_in_place(number, product);
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// Each element raised to the power in `exponent`, which broadcasts by name.
    pub fn pow<R, How: Marker>(&self, exponent: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(exponent, power)
    }

    /// Each element raised to the power `exponent`.
    pub fn pow_scalar(&self, exponent: f64) -> Self {
        Tensor::typed(self.shape(), self.any().with_number(exponent, power))
    }

    /// The larger of the two, element by element; NaN where either is.
    pub fn maximum<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, larger)
    }

    /// The smaller of the two, element by element; NaN where either is.
    pub fn minimum<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, smaller)
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
        self.with_data(zip3(self.any().view(), condition, otherwise, either))
    }
}

impl<E: Float> AnyTensor<E> {
    /// `f` of every element and one number.
    fn with_number(&self, number: f64, f: impl Fn(E, E) -> E + Send + Sync) -> Self {
        let number = E::from_f64(number);
        self.map(move |x| f(x, number))
    }

    fn with_number_in_place(&mut self, number: f64, f: impl Fn(E, E) -> E + Send + Sync) {
        let number = E::from_f64(number);
        self.map_in_place(move |x| f(x, number));
    }

    /// Puts `f` of every element and its partner in the element's place.
    fn zip_in_place(&mut self, partners: View<E>, f: impl Fn(E, E) -> E + Sync) {
        self.update(
            |elements| zip_in_place(elements, partners, &f),
            |view| zip(view, partners, &f),
        );
    }
}

// What the operations do to elements, as functions that know no shape: a closure within a method of
// `Tensor<S, E>` would be another type for each S, and its loop compiled once for each.

fn sum<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() + b.wide())
}

fn difference<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() - b.wide())
}

fn product<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() * b.wide())
}

fn quotient<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide() / b.wide())
}

fn power<E: Float>(a: E, b: E) -> E {
    E::narrow(a.wide().powf(b.wide()))
}

fn larger<E: Float>(a: E, b: E) -> E {
    if a > b || a.wide().is_nan() { a } else { b }
}

fn smaller<E: Float>(a: E, b: E) -> E {
    if a < b || a.wide().is_nan() { a } else { b }
}

fn either<E: Element>(a: E, keep: bool, b: E) -> E {
    if keep { a } else { b }
}
