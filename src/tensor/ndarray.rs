//! To and from the arrays of the crate `ndarray`, without a copy where the layout allows it.

use super::any::count_of;
use super::{AnyTensor, Tensor};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::layout::{Dims, Layout};
use crate::shape::Shape;
use ndarray::{Array, ArrayViewD, Dimension, IxDyn, ShapeBuilder};

impl<E: Element> AnyTensor<E> {
    /// The elements of an array, with its sizes. Nothing is copied, whatever the order of its axes in memory,
    /// unless the array runs through its memory backwards.
    ///
    /// # Errors
    /// Where it has more than six axes.
    ///
    /// # Examples
    /// ```
    /// use ndarray::array;
    /// use shapeproof::{AnyTensor, Batch, C, Model, Tensor};
    ///
    /// let x = AnyTensor::try_from_ndarray(array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]].reversed_axes())?;
    /// let x: Tensor<_> = x.try_typed((Batch(C::<3>), Model(C::<2>)))?;
    /// assert_eq!(x.to_vec(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// assert_eq!(x.as_ndarray().sum(), 21.0);
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn try_from_ndarray<D: Dimension>(array: Array<E, D>) -> Result<Self> {
        let dims = array.shape().to_vec();
        count_of(&dims)?;
        let strides: Option<Vec<usize>> =
            array.strides().iter().map(|&stride| usize::try_from(stride).ok()).collect();
        match strides.filter(|_| !array.is_empty()) {
            Some(strides) => {
                let (data, offset) = array.into_raw_vec_and_offset();
                let (dims, strides) = (Dims::new(&dims), Dims::new(&strides));
                let layout = Layout { dims, strides, offset: offset.unwrap_or(0) };
                Ok(AnyTensor::in_layout(layout, data))
            }
            None => Ok(AnyTensor::from_packed(&dims, array.iter().copied().collect())),
        }
    }

    /// The tensor as a view of the crate `ndarray`: of the same memory, in whatever order that is.
    pub fn as_ndarray(&self) -> ArrayViewD<'_, E> {
        let view = self.view();
        let Layout { dims, strides, offset } = view.layout;
        let array = match dims.contains(&0) {
            // `ndarray` wants the strides of an empty array to stay within its memory too.
            true => ArrayViewD::from_shape(IxDyn(&dims), &[]),
            false => {
                let shape = IxDyn(&dims).strides(IxDyn(&strides));
                ArrayViewD::from_shape(shape, &view.data[offset..])
            }
        };
        match array {
            Ok(array) => array,
            Err(error) => unreachable!("a tensor's elements lie in its storage: {error}"),
        }
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The tensor as a view of the crate `ndarray`: of the same memory, in whatever order that is.
    pub fn as_ndarray(&self) -> ArrayViewD<'_, E> {
        self.any().as_ndarray()
    }
}
