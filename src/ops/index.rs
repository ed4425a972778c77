//! Looking entries up by number.

use crate::axis::Axis;
use crate::element::{Element, Index};
use crate::error::{Error, Result};
use crate::kernel::index;
use crate::ops::compare::index_of;
use crate::shape::{Appends, HasAxis, Marker, Shape};
use crate::tensor::{AnyTensor, Tensor};

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The entries of an axis that `indices` names, in that order; the axis takes the index's name
    /// and size.
    ///
    /// # Errors
    /// Where an index lies outside of the axis: the first such index and its place.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{axis, Batch, Model, Tensor, C};
    ///
    /// axis!(Beam);
    ///
    /// let x = Tensor::<(Batch<C<2>>, Model<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let beams = Tensor::<(Beam<C<3>>,), u32>::from([1, 1, 0]);
    /// let y: Tensor<(Beam<C<3>>, Model<C<2>>)> = x.try_gather(Batch, &beams)?;
    /// assert_eq!(y.to_vec(), [3.0, 4.0, 3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn try_gather<A: Axis, N, X: Axis, T: Index, I: Marker>(
        &self,
        _axis: fn(N) -> A,
        indices: &Tensor<(X,), T>,
    ) -> Result<Tensor<S::With<X>, E>>
    where
        S: HasAxis<A, I>,
    {
        let places = checked(indices.any(), self.dims()[S::AT], A::NAME)?;
        let shape = self.shape().with(indices.shape().0);
        let data = index::gather(self.any().view(), S::AT, &places);
        Ok(Tensor::from_packed(shape, data))
    }
}

impl<V: Axis, M: Axis, E: Element> Tensor<(V, M), E> {
    /// The row of this table for every index: an embedding.
    ///
    /// # Shapes
    /// A table over `(Vocab, Model)` and indices over `(Batch, Seq)` give `(Batch, Seq, Model)`.
    ///
    /// # Errors
    /// Where an index lies outside of the table: the first such index and its place.
    pub fn try_embed<S: Shape, T: Index>(
        &self,
        indices: &Tensor<S, T>,
    ) -> Result<Tensor<S::Output, E>>
    where
        S: Appends<(M,)>,
    {
        let places = checked(indices.any(), self.dims()[0], V::NAME)?;
        let shape = indices.shape().append((self.shape().1,));
        let data = index::gather(self.any().view(), 0, &places);
        Ok(Tensor::from_packed(shape, data))
    }
}

/// The indices as `usize`, all below `n`.
pub(crate) fn checked<T: Index>(
    indices: &AnyTensor<T>,
    n: usize,
    axis: &str,
) -> Result<Vec<usize>> {
    let check = |(place, index): (usize, T)| match index.to_index() {
        Some(inside) if inside < n => Ok(inside),
        _ => Err(Error::index(format!(
            "index {index:?}, at {:?}, is outside of axis {axis} of size {n}",
            index_of(place, indices.dims())
        ))),
    };
    indices.to_vec().into_iter().enumerate().map(check).collect()
}
