//! Between shapes that are types and shapes that are values, and between element types.

use super::node::with_elements;
use super::{AnyTensor, Tensor};
use crate::element::{Element, Float, bf16, f16};
use crate::error::{Error, Result};
use crate::kernel::elementwise::{map, map_in_place};
use crate::kernel::layout::View;
use crate::kernel::math;
use crate::kernel::wide::{cast, map_wide, map_wide_in_place, zip_wide, zip_wide_in_place};
use crate::shape::Shape;
use crate::tensor::display::shape_text;
use num_traits::Float as _;
use std::any::Any;

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The same axes with sizes of other types, such as a static batch for a run-time one.
    ///
    /// ```
    /// use shapeproof::{dyn_size, Batch, Model, Tensor, C};
    ///
    /// dyn_size!(batch = 2);
    /// let x = Tensor::<_, f32>::ones_in((Batch(batch), Model(C::<3>)));
    /// let y = x.try_with_sizes((Batch(C::<2>), Model(C::<3>)))?;
    /// assert!(x.try_with_sizes((Batch(C::<5>), Model(C::<3>))).is_err());
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where an axis has another name or size.
    pub fn try_with_sizes<T: Shape>(&self, shape: T) -> Result<Tensor<T, E>> {
        if S::NAMES != T::NAMES || *shape.dims() != *self.dims() {
            return Err(Error::shape(format!(
                "expected shape {}, found {}",
                shape_text(T::NAMES, &shape.dims()),
                shape_text(S::NAMES, self.dims())
            )));
        }
        Ok(Tensor::typed(shape, self.erase()))
    }

    /// Each element the value of `f`; the element type may change.
    ///
    /// # Panics
    /// Where floats would be made of a tensor that was computed from parameters in training: `f` has no
    /// gradient, and losing it is what [`detach`](Self::detach) is there to say.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Key, Tensor, C};
    ///
    /// let tokens = Tensor::<(Key<C<3>>,), u32>::from([7, 4, 0]);
    /// let keep = tokens.map(|token| token != 0);
    /// assert_eq!(keep.to_vec(), [true, true, false]);
    /// ```
    pub fn map<F: Element>(&self, f: impl Fn(E) -> F + Send + Sync) -> Tensor<S, F> {
        if F::IS_FLOAT {
            self.any().must_not_be_recorded("map");
        }
        self.with_data(map(self.any().view(), f))
    }

    /// Puts the value of `f` in the place of each element: [`map`](Self::map) without new memory, unless
    /// the elements are shared with another tensor, which keeps them, or lie in memory out of order.
    ///
    /// # Panics
    /// As [`map`](Self::map).
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Key, Tensor, C};
    ///
    /// let mut x = Tensor::<(Key<C<3>>,)>::from([1.0, 2.0, 3.0]);
    /// let before = x.clone();
    /// x.map_in_place(|x| x * 2.0);
    /// assert_eq!(x.to_vec(), [2.0, 4.0, 6.0]);
    /// assert_eq!(before.to_vec(), [1.0, 2.0, 3.0]);
    /// ```
    pub fn map_in_place(&mut self, f: impl Fn(E) -> E + Send + Sync) {
        self.any().must_not_be_recorded("map_in_place");
        self.any_mut().update(|elements| map_in_place(elements, &f), |view| map(view, &f));
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The elements in row-major order, to be written. Copied first where they are shared with another
    /// tensor, which keeps them, or lie in memory out of order.
    ///
    /// # Panics
    /// Where the tensor was computed from parameters in training: what is written has no gradient, and
    /// losing it is what [`detach`](Self::detach) is there to say.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Model, Tensor, C};
    ///
    /// fn double(x: &mut [f32]) { // a function that knows slices alone
    ///     x.iter_mut().for_each(|x| *x *= 2.0);
    /// }
    /// let mut x = Tensor::<(Batch<C<1>>, Model<C<2>>)>::from([[1.0, 2.0]]);
    /// let before = x.clone();
    /// double(x.as_mut_slice());
    /// assert_eq!(x.to_vec(), [2.0, 4.0]);
    /// assert_eq!(before.to_vec(), [1.0, 2.0]);
    /// ```
    pub fn as_mut_slice(&mut self) -> &mut [E] {
        self.any().must_not_be_recorded("as_mut_slice");
        self.any_mut().packed_mut()
    }

    /// The elements in row-major order; copies them only where they are shared with another tensor or lie
    /// in memory out of order.
    ///
    /// ```
    /// use shapeproof::{Batch, Tensor, C};
    ///
    /// let data = vec![1.0, 2.0];
    /// let address = data.as_ptr();
    /// let x = Tensor::try_from_vec((Batch(C::<2>),), data)?;
    /// assert_eq!(x.into_vec().as_ptr(), address);
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn into_vec(self) -> Vec<E> {
        self.into_any().into_vec()
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// The same tensor with elements of another floating-point type, each rounded to it.
    pub fn to<F: Float>(&self) -> Tensor<S, F> {
        Tensor::typed(self.shape(), self.any().to())
    }
}

impl<E: Element> AnyTensor<E> {
    fn is_finite(&self) -> bool
    where
        E: Float,
    {
        let packed = self.packed();
        let mut elements = packed.as_slice().unwrap_or_default().iter();
        elements.all(|x| x.wide().is_finite())
    }

    fn element(&self) -> &'static str {
        E::NAME
    }

    fn scale_in_place(&mut self, factor: f64)
    where
        E: Float,
    {
        let factor = E::Wide::from_f64(factor);
        self.map_wide_in_place(|x| x * factor);
    }

    fn clamp_in_place(&mut self, limit: f64)
    where
        E: Float,
    {
        let [low, high] = [-limit, limit].map(E::Wide::from_f64);
        self.map_wide_in_place(|x| math::clamped(x, low, high));
    }

    /// A closure has no gradient rule.
    fn must_not_be_recorded(&self, function: &str) {
        assert!(
            !self.is_recorded(),
            "`{function}` has no gradient: call `detach` before it, or use operations that have one"
        );
    }
}

impl<E: Float> AnyTensor<E> {
    /// `f` of every element as a wide number, of which nothing is recorded.
    pub(crate) fn map_wide(&self, f: impl Fn(E::Wide) -> E::Wide + Sync) -> Self {
        Self::from_packed(self.dims(), map_wide(self.view(), f))
    }

    /// As [`map_wide`](Self::map_wide), in place.
    pub(crate) fn map_wide_in_place(&mut self, f: impl Fn(E::Wide) -> E::Wide + Sync) {
        self.update(|elements| map_wide_in_place(elements, &f), |view| map_wide(view, &f));
    }

    /// Puts `f` of every element and its partner, as wide numbers, in the element's place, of which nothing
    /// is recorded.
    pub(crate) fn zip_in_place(
        &mut self,
        partners: View<E>,
        f: impl Fn(E::Wide, E::Wide) -> E::Wide + Sync,
    ) {
        self.update(
            |elements| zip_wide_in_place(elements, partners, &f),
            |view| zip_wide(view, partners, &f),
        );
    }

    /// The same tensor with elements of another floating-point type; shares them where it is the same
    /// one.
    pub(crate) fn to<F: Float>(&self) -> AnyTensor<F> {
        match (self as &dyn Any).downcast_ref::<AnyTensor<F>>() {
            Some(same) => same.clone(),
            None => {
                let other = AnyTensor::from_packed(self.dims(), cast(self.view()));
                other.recorded_any(&[self], || {
                    |gradient| vec![Some(FloatTensor::new(gradient.to::<E>()))]
                })
            }
        }
    }
}

/// A tensor of any floating-point type and any shape: what a file or an optimizer sees of a
/// parameter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FloatTensor {
    /// 32-bit floats.
    F32(AnyTensor<f32>),
    /// 64-bit floats.
    F64(AnyTensor<f64>),
    /// 16-bit floats of 11 binary digits.
    F16(AnyTensor<f16>),
    /// 16-bit floats with the range of `f32`.
    BF16(AnyTensor<bf16>),
}

impl FloatTensor {
    /// A tensor with its element type erased too; shares the elements.
    pub fn new<E: Float>(tensor: AnyTensor<E>) -> Self {
        let any: &dyn Any = &tensor;
        let wrapped = None
            .or_else(|| any.downcast_ref().cloned().map(FloatTensor::F32))
            .or_else(|| any.downcast_ref().cloned().map(FloatTensor::F64))
            .or_else(|| any.downcast_ref().cloned().map(FloatTensor::F16))
            .or_else(|| any.downcast_ref().cloned().map(FloatTensor::BF16));
        wrapped.unwrap_or_else(|| unreachable!("`Float` is implemented for four types"))
    }

    /// The tensor with elements of type `E`, rounded where they are of another.
    pub fn to<E: Float>(&self) -> AnyTensor<E> {
        with_elements!(self, tensor => tensor.to())
    }

    /// Whether no element is NaN or infinite.
    pub fn is_finite(&self) -> bool {
        with_elements!(self, tensor => tensor.is_finite())
    }

    /// The same numbers, halves as `f32`.
    pub(crate) fn widened(self) -> Self {
        match self {
            FloatTensor::F16(tensor) => FloatTensor::F32(tensor.to()),
            FloatTensor::BF16(tensor) => FloatTensor::F32(tensor.to()),
            wide => wide,
        }
    }

    /// Adds the elements of a tensor of the same sizes. Halves become `f32`: a sum of many in their own
    /// type would stall.
    pub(crate) fn add_in_place(&mut self, other: &FloatTensor) {
        *self = self.clone().widened();
        with_elements!(self, sum => sum.zip_in_place(other.to().view(), |a, b| a + b));
    }

    /// Multiplies all elements by one number.
    pub(crate) fn scale_in_place(&mut self, factor: f64) {
        with_elements!(self, x => x.scale_in_place(factor));
    }

    /// Moves every element to the nearest number in −limit..=limit; NaN stays NaN.
    pub(crate) fn clamp_in_place(&mut self, limit: f64) {
        with_elements!(self, x => x.clamp_in_place(limit));
    }

    /// The last two axes exchanged. Needs two axes.
    #[cfg(feature = "files")]
    pub(crate) fn transposed(&self) -> Self {
        with_elements!(self, tensor => float tensor.viewed(tensor.layout().transposed()))
    }

    /// The sizes of the axes, in order.
    pub fn dims(&self) -> &[usize] {
        with_elements!(self, tensor => tensor.dims())
    }

    /// The name of the element type.
    pub fn element(&self) -> &'static str {
        with_elements!(self, tensor => tensor.element())
    }
}

/// Elements to be changed: what an optimizer changes of a parameter. Halves have none: their parameters
/// are changed as `f32`.
#[doc(hidden)]
#[derive(Debug)]
pub enum FloatSliceMut<'a> {
    /// 32-bit floats.
    F32(&'a mut [f32]),
    /// 64-bit floats.
    F64(&'a mut [f64]),
}

impl<'a> FloatSliceMut<'a> {
    /// The elements in row-major order, which no other tensor has; `None` of halves.
    pub(crate) fn of<E: Float>(tensor: &'a mut AnyTensor<E>) -> Option<Self> {
        let tensor: &mut dyn Any = tensor;
        // Asked twice: a borrow that may be returned lasts through all branches.
        if tensor.is::<AnyTensor<f32>>() {
            let tensor = tensor.downcast_mut::<AnyTensor<f32>>()?;
            return Some(FloatSliceMut::F32(tensor.packed_mut()));
        }
        let tensor = tensor.downcast_mut::<AnyTensor<f64>>()?;
        Some(FloatSliceMut::F64(tensor.packed_mut()))
    }
}
