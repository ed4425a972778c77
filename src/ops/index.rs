//! Looking entries up by number.

use crate::axis::Axis;
use crate::element::{Element, Float, Index};
use crate::error::{Error, Result};
use crate::kernel::{index, scatter};
use crate::ops::compare::index_of;
use crate::shape::{Appends, HasAxis, Marker, Shape};
use crate::tensor::{AnyTensor, Tensor, with_elements};

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
        Ok(Tensor::typed(shape, self.any().gathered(S::AT, places, None)))
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
        self.try_embed_with_padding(indices, None)
    }

    /// As [`try_embed`](Self::try_embed); a row of `padding` learns nothing.
    pub(crate) fn try_embed_with_padding<S: Shape, T: Index>(
        &self,
        indices: &Tensor<S, T>,
        padding: Option<usize>,
    ) -> Result<Tensor<S::Output, E>>
    where
        S: Appends<(M,)>,
    {
        let places = checked(indices.any(), self.dims()[0], V::NAME)?;
        let shape = indices.shape().append((self.shape().1,));
        let rows = self.any().gathered(0, places, padding);
        Ok(Tensor::typed(shape, rows.reshaped(&shape.dims())))
    }
}

impl<E: Element> AnyTensor<E> {
    /// The entries of axis `at` that `places` say, all below its size; that of `padding` gets no gradient.
    /// Knows no shape, so that it is compiled once for all.
    pub(crate) fn gathered(&self, at: usize, places: Vec<usize>, padding: Option<usize>) -> Self {
        let dims = self.layout().dims;
        let data = index::gather(self.view(), at, &places);
        Self::from_packed(&dims.replaced(at, places.len()), data).recorded_any(&[self], || {
            move |gradient| {
                // Widened, since any number of them may meet in one place.
                vec![Some(with_elements!(
                    gradient.clone().widened(),
                    g => float g.ungathered(&dims, at, &places, padding)
                ))]
            }
        })
    }
}

impl<E: Float> AnyTensor<E> {
    fn ungathered(
        &self,
        dims: &[usize],
        at: usize,
        places: &[usize],
        padding: Option<usize>,
    ) -> Self {
        let mut data = scatter::entries(self.view(), at, places, dims[at]);
        if let Some(row) = padding {
            debug_assert_eq!(at, 0);
            let each = dims[1..].iter().product::<usize>();
            data[row * each..][..each].fill(E::default());
        }
        Self::from_packed(dims, data)
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
