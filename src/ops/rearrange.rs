//! Moving, renaming, splitting and merging axes. Nothing here moves data that need not move.

use crate::axis::{Axis, Flat, Folded};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::layout::checked_count;
use crate::shape::{Expands, Flattens, HasAxis, HasPair, Marker, PermutesTo, SameCount, Shape};
use crate::size::{Size, Splits, Static, Times};
use crate::tensor::{AnyTensor, Tensor};

impl<E: Element> AnyTensor<E> {
    /// The axes in another order.
    pub(crate) fn permuted(&self, order: &[usize]) -> Self {
        self.viewed(self.layout().permuted(order))
    }

    /// Axes `at` and `at + 1` as one; copies only where no stride reaches the elements in order.
    pub(crate) fn merged(&self, at: usize) -> Self {
        match self.layout().merged(at) {
            Some(layout) => self.viewed(layout),
            // Not `packed`: an empty tensor counts as packed whatever its strides are.
            None => self.copied().merged(at),
        }
    }

    /// All axes as one.
    pub(crate) fn flattened(&self) -> Self {
        self.reshaped(&[self.count()])
    }

    /// Other sizes of the same count.
    pub(crate) fn reshaped(&self, dims: &[usize]) -> Self {
        let packed = self.packed();
        let mut layout = crate::kernel::layout::Layout::packed(dims);
        layout.offset = packed.layout().offset;
        packed.viewed(layout)
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The axes in another order, which the type names: `x.permute::<(Seq<_>, Batch<_>, Model<_>), _>()`,
    /// or from the type that is expected. Moves no data.
    ///
    /// # Compile errors
    /// `permutation_must_keep_the_axes`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Seq, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<2>>, Seq<C<3>>), i32>::from([[0, 1, 2], [3, 4, 5]]);
    /// let y: Tensor<(Seq<C<3>>, Batch<C<2>>), i32> = x.permute();
    /// assert_eq!(y.to_vec(), [0, 3, 1, 4, 2, 5]);
    /// ```
    pub fn permute<T: Shape, How: Marker>(&self) -> Tensor<T, E>
    where
        S: PermutesTo<T, How>,
    {
        self.viewed(self.shape().permuted(), self.any().layout().permuted(&S::order()))
    }

    /// Two axes exchanged. Moves no data.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Key, Query, Tensor, C};
    ///
    /// let x = Tensor::<(Query<C<2>>, Key<C<3>>), i32>::from([[0, 1, 2], [3, 4, 5]]);
    /// let y: Tensor<(Key<C<3>>, Query<C<2>>), i32> = x.transpose(Query, Key);
    /// assert_eq!(y.to_vec(), [0, 3, 1, 4, 2, 5]);
    /// ```
    pub fn transpose<A: Axis, B: Axis, N, M, I: Marker, J: Marker>(
        &self,
        _one: fn(N) -> A,
        _other: fn(M) -> B,
    ) -> Tensor<<<S as HasAxis<A, I>>::With<B> as HasAxis<B, J>>::With<A>, E>
    where
        S: HasAxis<A, I> + HasAxis<B, J>,
        <S as HasAxis<A, I>>::With<B>: HasAxis<B, J>,
    {
        let (one, other) = (<S as HasAxis<A, I>>::AT, <S as HasAxis<B, J>>::AT);
        let shape = self.shape();
        let (a, b) = (HasAxis::<A, I>::axis(shape), HasAxis::<B, J>::axis(shape));
        let shape = HasAxis::<B, J>::with(HasAxis::<A, I>::with(shape, b), a);
        let mut layout = *self.any().layout();
        layout.dims.swap(one, other);
        layout.strides.swap(one, other);
        self.viewed(shape, layout)
    }

    /// The same axis under another name: `x.rename(Seq, Query)`. Moves no data.
    pub fn rename<A: Axis<Size = N>, T: Axis, N: Size, I: Marker>(
        &self,
        _from: fn(N) -> A,
        to: fn(N) -> T,
    ) -> Tensor<S::With<T>, E>
    where
        S: HasAxis<A, I>,
    {
        let shape = self.shape();
        self.viewed(shape.with(to(shape.axis().size())), *self.any().layout())
    }

    /// One axis as two whose sizes multiply to its own: `x.split_axis(Model, Heads(C::<8>), HeadDim)`.
    /// Entry i becomes entry (i / inner, i % inner). Moves no data.
    ///
    /// # Compile errors
    /// `split_axis_must_divide`.
    pub fn split_axis<A: Axis, N, X: Axis, Y: Axis, I: Marker>(
        &self,
        _axis: fn(N) -> A,
        outer: X,
        inner: fn(<X::Size as Splits<A::Size>>::Part) -> Y,
    ) -> Tensor<S::Into<X, Y>, E>
    where
        S: Expands<A, I>,
        X::Size: Splits<A::Size>,
    {
        let part = <X::Size as Splits<A::Size>>::Part::default();
        let shape = self.shape().into_pair(outer, inner(part));
        self.viewed(shape, self.any().layout().split(S::AT, outer.size().get(), part.get()))
    }

    /// Two neighbouring axes of static sizes as one: `x.merge_axes(Heads, HeadDim, Model)`. The first
    /// is the outer one. Moves no data where one stride reaches both.
    ///
    /// # Compile errors
    /// `merged_axes_must_be_neighbours`.
    pub fn merge_axes<A: Axis, B: Axis, N, M, Z: Axis, I: Marker>(
        &self,
        _outer: fn(N) -> A,
        _inner: fn(M) -> B,
        to: fn(<B::Size as Times<A::Size>>::Product) -> Z,
    ) -> Tensor<S::Merged<Z>, E>
    where
        S: HasPair<A, B, I>,
        B::Size: Times<A::Size>,
    {
        Tensor::typed(self.shape().merged(to(Default::default())), self.any().merged(S::AT))
    }

    /// Two neighbouring axes as one that remembers both; for sizes of any kind. The first is the
    /// outer one. Moves no data where one stride reaches both.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{dyn_size, Batch, C, Heads, Key, Tensor};
    ///
    /// dyn_size!(batch = 2);
    /// let x = Tensor::<_, f32>::ones_in((Batch(batch), Heads(C::<3>), Key(C::<4>)));
    /// let folded = x.fold(Batch, Heads);
    /// assert_eq!(folded.dims(), [6, 4]);
    /// assert_eq!(folded.unfold(Batch, Heads), x);
    /// ```
    pub fn fold<A: Axis, B: Axis, N, M, I: Marker>(
        &self,
        _outer: fn(N) -> A,
        _inner: fn(M) -> B,
    ) -> Tensor<S::Merged<Folded<A, B>>, E>
    where
        S: HasPair<A, B, I>,
    {
        let (outer, inner) = self.shape().pair();
        let folded = Folded::try_new(outer, inner).unwrap_or_else(|error| {
            unreachable!("a tensor's sizes multiply without overflow: {error}")
        });
        Tensor::typed(self.shape().merged(folded), self.any().merged(S::AT))
    }

    /// The two axes that [`fold`](Self::fold) made one. Moves no data.
    pub fn unfold<A: Axis, B: Axis, N, M, I: Marker>(
        &self,
        _outer: fn(N) -> A,
        _inner: fn(M) -> B,
    ) -> Tensor<S::Into<A, B>, E>
    where
        S: Expands<Folded<A, B>, I>,
    {
        let shape = self.shape();
        let (outer, inner) = shape.axis().parts();
        let layout = self.any().layout().split(S::AT, outer.size().get(), inner.size().get());
        self.viewed(shape.into_pair(outer, inner), layout)
    }

    /// All elements along one axis, in row-major order; for static sizes. Run-time sizes are folded
    /// ([`fold`](Self::fold)), or checked ([`try_reshape`](Self::try_reshape)).
    ///
    /// # Compile errors
    /// `flatten_must_be_of_static_sizes`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Flat, Key, Query, Tensor, C};
    ///
    /// let x = Tensor::<(Query<C<2>>, Key<C<3>>), i32>::from([[0, 1, 2], [3, 4, 5]]);
    /// let flat: Tensor<(Flat<C<6>>,), i32> = x.transpose(Query, Key).flatten();
    /// assert_eq!(flat.to_vec(), [0, 3, 1, 4, 2, 5]);
    /// ```
    pub fn flatten<N: Static>(&self) -> Tensor<(Flat<N>,), E>
    where
        S: Flattens<Size = N>,
    {
        Tensor::typed((Flat(Default::default()),), self.any().flattened())
    }

    /// Other axes for the same elements, in row-major order; the compiler proves that the sizes
    /// multiply to the same count.
    ///
    /// # Compile errors
    /// `reshape_must_keep_the_count`: "(…) and (…) do not hold the same number of elements".
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Model, Seq, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>)>::ones();
    /// let y: Tensor<(Seq<C<6>>, Model<C<4>>)> = x.reshape();
    /// assert_eq!(y.dims(), [6, 4]);
    /// ```
    pub fn reshape<T: Shape + Default>(&self) -> Tensor<T, E>
    where
        S: SameCount<T>,
    {
        let shape = T::default();
        Tensor::typed(shape, self.any().reshaped(&shape.dims()))
    }

    /// Other axes for the same elements, in row-major order; the count is checked at run time.
    ///
    /// # Errors
    /// Where `shape` has another number of elements.
    pub fn try_reshape<T: Shape>(&self, shape: T) -> Result<Tensor<T, E>> {
        let dims = shape.dims();
        if checked_count(&dims) != Some(self.count()) {
            let (from, to) = (self.dims(), &*dims);
            return Err(Error::shape(format!(
                "sizes {from:?} cannot become {to:?}: the counts differ"
            )));
        }
        Ok(Tensor::typed(shape, self.any().reshaped(&dims)))
    }
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// `size` entries of an axis, from `start` on. Moves no data.
    ///
    /// # Errors
    /// Where that goes past the axis's end.
    pub fn try_slice<A: Axis, N, T: Size, I: Marker>(
        &self,
        _axis: fn(N) -> A,
        start: usize,
        size: T,
    ) -> Result<Tensor<S::With<A::With<T>>, E>>
    where
        S: HasAxis<A, I>,
    {
        let (n, len) = (self.dims()[S::AT], size.get());
        if start.checked_add(len).is_none_or(|end| end > n) {
            return Err(Error::index(format!(
                "{len} entries from {start} on go past the end of axis {} of size {n}",
                A::NAME
            )));
        }
        let shape = self.shape().with(A::with(size));
        Ok(self.viewed(shape, self.any().layout().sliced(S::AT, start, len)))
    }

    /// One entry of an axis; the axis goes. Moves no data.
    ///
    /// # Errors
    /// Where `index` is not below the axis's size.
    pub fn try_select<A: Axis, N, I: Marker>(
        &self,
        _axis: fn(N) -> A,
        index: usize,
    ) -> Result<Tensor<S::Without, E>>
    where
        S: HasAxis<A, I>,
    {
        let at = checked_entry(self.dims(), S::AT, index, A::NAME)?;
        Ok(self.viewed(self.shape().without(), self.any().layout().at(S::AT, at)))
    }

    /// The axis cut into equal parts, as many as `parts` says: `let [q, k, v] = x.chunk(Model, C::<3>)`.
    /// Moves no data.
    ///
    /// # Compile errors
    /// `chunks_must_divide_the_axis`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Model, Tensor, C};
    ///
    /// let x = Tensor::<(Batch<C<1>>, Model<C<6>>)>::from([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]);
    /// let [q, k, v] = x.chunk(Model, C::<3>);
    /// assert_eq!(k.to_vec(), [2.0, 3.0]);
    /// # let _ = (q, v);
    /// ```
    pub fn chunk<P: Splits<A::Size>, A: Axis, N, I: Marker>(
        &self,
        _axis: fn(N) -> A,
        _parts: P,
    ) -> P::Array<Tensor<S::With<A::With<P::Part>>, E>>
    where
        S: HasAxis<A, I>,
    {
        let part = P::Part::default();
        let shape = self.shape().with(A::with(part));
        P::array(|i| {
            let layout = self.any().layout().sliced(S::AT, i * part.get(), part.get());
            self.viewed(shape, layout)
        })
    }
}

/// An index below the size of axis `at`, which is called `name`.
pub(super) fn checked_entry(dims: &[usize], at: usize, index: usize, name: &str) -> Result<usize> {
    let n = dims[at];
    if index >= n {
        let text = format!("entry {index} is outside of axis {name} of size {n}");
        return Err(Error::index(text));
    }
    Ok(index)
}
