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

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $name:ident $scalar:ident $verb:literal $operator:tt;)+) => {
        impl<S: Shape, E: Float> Tensor<S, E> { $(
            $(#[$doc])*
            ///
            /// # Shapes
            /// `right` has some of this tensor's axes, with the same names, sizes and order; the
            /// axes that it lacks repeat. The result has this tensor's shape.
            pub fn $name<R, How: Marker>(&self, right: &Tensor<R, E>) -> Self
            where
                R: BroadcastsTo<S, How>,
            {
                self.zipped(right, |a, b| E::narrow(a.wide() $operator b.wide()))
            }

            #[doc = concat!($verb, " one number.")]
            pub fn $scalar(&self, number: f64) -> Self {
                let number = E::from_f64(number).wide();
                self.map(move |value| E::narrow(value.wide() $operator number))
            }
        )+ }
    };
}
arithmetic! {
    /// Adds, element by element.
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
    add add_scalar "Adds" +;
    /// Subtracts, element by element.
    sub sub_scalar "Subtracts" -;
    /// Multiplies, element by element.
    mul mul_scalar "Multiplies by" *;
    /// Divides, element by element.
    div div_scalar "Divides by" /;
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
