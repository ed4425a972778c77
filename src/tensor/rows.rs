//! Rows as arrays whose length is in their type.

use super::Tensor;
use crate::axis::Axis;
use crate::element::Element;
use crate::shape::{NonScalar, Shape};
use crate::size::{C, Known, Row};
use generic_array::{ArrayLength, GenericArray};

impl<S: Shape + NonScalar, E: Element> Tensor<S, E> {
    /// The rows along the last axis as `&[[E; N]]`, where the tensor is packed in memory; `None`
    /// where it is a strided view, or its rows are empty.
    ///
    /// ```
    /// use shapeproof::{Batch, Model, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<2>>, Model<C<3>>)>::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// assert_eq!(x.as_arrays().unwrap()[1], [4.0, 5.0, 6.0]);
    /// ```
    pub fn as_arrays<const N: usize>(&self) -> Option<&[[E; N]]>
    where
        S::Last: Axis<Size = C<N>>,
    {
        (N > 0).then(|| self.as_slice().map(|slice| slice.as_chunks().0)).flatten()
    }

    /// The rows along the last axis as [`GenericArray`]s, whose length may have come out of
    /// arithmetic; `None` where the tensor is a strided view, or its rows are empty.
    ///
    /// ```
    /// use shapeproof::{Batch, DivisibleBy, HeadDim, HeadDimOf, Row, Size, Static, Tensor};
    ///
    /// fn first<B: Size, M: DivisibleBy<H>, H: Static>(
    ///     x: &Tensor<(Batch<B>, HeadDim<HeadDimOf<M, H>>)>,
    /// ) -> Option<&Row<f32, HeadDimOf<M, H>>> {
    ///     x.as_rows()?.first()
    /// }
    /// ```
    pub fn as_rows(&self) -> Option<&[Row<E, <S::Last as Axis>::Size>]>
    where
        S::Last: Axis<Size: Known<U: ArrayLength>>,
    {
        let slice = self.as_slice()?;
        let row = *self.dims().last()?;
        (row > 0).then(|| GenericArray::chunks_from_slice(slice).0)
    }
}
