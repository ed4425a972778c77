//! Splitting the model width into heads, and merging them again.

use crate::axis::{Axis, HeadDim, Heads, Model};
use crate::element::Element;
use crate::size::{Size, Splits, Static, Times};
use crate::tensor::{AnyTensor, Tensor};

impl<B: Axis, S: Axis, M: Size, E: Element> Tensor<(B, S, Model<M>), E> {
    /// The width M as H heads of M/H each, the heads before the positions. Moves no data.
    ///
    /// Head h has features h · M/H to (h + 1) · M/H − 1 of every position.
    ///
    /// # Shapes
    /// `(Batch, Seq, Model<M>)` becomes `(Batch, Heads<H>, Seq, HeadDim<M/H>)`.
    ///
    /// # Compile errors
    /// `split_heads_must_divide_the_width`: "C<512> cannot be divided evenly by C<7>".
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Model, Seq, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<1>>, Seq<C<2>>, Model<C<4>>)>::from([[
    ///     [0.0, 1.0, 2.0, 3.0],
    ///     [4.0, 5.0, 6.0, 7.0],
    /// ]]);
    /// let heads = x.split_heads::<C<2>>();
    /// assert_eq!(heads.to_vec(), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0]);
    /// assert_eq!(heads.merge_heads(), x);
    /// ```
    pub fn split_heads<H: Splits<M>>(&self) -> Tensor<(B, Heads<H>, S, HeadDim<H::Part>), E> {
        let (batch, seq, _) = self.shape();
        let shape = (batch, Heads(H::default()), seq, HeadDim(H::Part::default()));
        Tensor::typed(shape, self.any().split_heads(H::N, H::Part::N))
    }
}

impl<B: Axis, H: Static, S: Axis, D: Static, E: Element> Tensor<(B, Heads<H>, S, HeadDim<D>), E> {
    /// The heads side by side in one width again: the inverse of
    /// [`split_heads`](Tensor::split_heads). Moves no data where they lie side by side in memory, as
    /// they do after `split_heads` and after attention.
    ///
    /// # Shapes
    /// `(Batch, Heads<H>, Seq, HeadDim<D>)` becomes `(Batch, Seq, Model<H·D>)`.
    ///
    /// # Compile errors
    /// `merged_heads_must_give_the_width`: "expected `500`, found `512`".
    pub fn merge_heads<M: Static>(&self) -> Tensor<(B, S, Model<M>), E>
    where
        D: Times<H, Product = M>,
    {
        let (batch, _, seq, _) = self.shape();
        let shape = (batch, seq, Model(M::default()));
        Tensor::typed(shape, self.any().merge_heads())
    }
}

impl<E: Element> AnyTensor<E> {
    /// (batch, positions, heads · dim) as (batch, heads, positions, dim). Moves no data.
    pub(crate) fn split_heads(&self, heads: usize, dim: usize) -> Self {
        self.viewed(self.layout().split(2, heads, dim).permuted(&[0, 2, 1, 3]))
    }

    /// (batch, heads, positions, dim) as (batch, positions, heads · dim). Moves no data where the heads of
    /// a position lie side by side.
    pub(crate) fn merge_heads(&self) -> Self {
        self.permuted(&[0, 2, 1, 3]).merged(2)
    }
}
