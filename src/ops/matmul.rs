//! Matrix products.

use crate::axis::Axis;
use crate::element::Float;
use crate::kernel::gemm::gemm;
use crate::kernel::layout::View;
use crate::kernel::linear::linear;
use crate::shape::{Contracts, HasAxis, Marker, MatrixProduct, Shape};
use crate::tensor::{AnyTensor, Tensor};

impl<S: Shape, E: Float> Tensor<S, E> {
    /// The sum over a named axis of the products of both tensors' entries: a matrix product over
    /// any leading axes, wherever the axis stands in either.
    ///
    /// `queries.dot(&keys, HeadDim)` are the attention scores, `weights.dot(&values, Key)` its
    /// output, `x.dot(&w, Model)` a projection.
    ///
    /// # Shapes
    /// Without the named axis, all axes of `right` but its last are the first ones of this tensor;
    /// the result has this tensor's axes and that last one. `(Batch, Heads, Query, HeadDim)` and
    /// `(Batch, Heads, Key, HeadDim)` give `(Batch, Heads, Query, Key)`.
    ///
    /// # Numerics
    /// Accumulates in f64 for f64, else in f32, in one order that depends neither on the layout
    /// nor on the number of threads.
    ///
    /// # Compile errors
    /// `contracted_axes_must_have_one_size`.
    ///
    /// Axes that are to be told apart in the result have different names before: heads that were
    /// split from `Seq` are renamed, `q.rename(Seq, Query)` and `k.rename(Seq, Key)`. An operation on
    /// one of two axes named `Seq` is "type annotations needed" to rustc.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{HeadDim, Key, Query, Tensor, C};
    ///
    /// let q = Tensor::<(Query<C<1>>, HeadDim<C<2>>)>::from([[1.0, 2.0]]);
    /// let k = Tensor::<(Key<C<3>>, HeadDim<C<2>>)>::from([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]);
    /// let scores: Tensor<(Query<C<1>>, Key<C<3>>)> = q.dot(&k, HeadDim); // nothing to transpose
    /// assert_eq!(scores.to_vec(), [1.0, 2.0, 3.0]);
    /// ```
    pub fn dot<R: Shape, A: Axis, N, I: Marker, J: Marker>(
        &self,
        right: &Tensor<R, E>,
        _axis: fn(N) -> A,
    ) -> Tensor<<S::Without as Contracts<R::Without>>::Output, E>
    where
        S: HasAxis<A, I>,
        R: HasAxis<A, J>,
        S::Without: Contracts<R::Without>,
    {
        let shape = self.shape().without().contracted(right.shape().without());
        // Left: the shared axes, rows, the contracted axis. Right: shared, contracted, columns.
        let a = self.any().viewed(self.any().layout().with_last(S::AT));
        let b = right.any().viewed(right.any().layout().with_last(R::AT));
        Tensor::typed(shape, product(&a, &b))
    }

    /// The matrix product by position: `(…, M, K)` times `(…, K, N)` is `(…, M, N)`. The leading axes
    /// must be the same; a right side without any is used for all of them.
    ///
    /// # Compile errors
    /// `matmul_must_agree_on_the_inner_axis`.
    pub fn matmul<R: Shape>(&self, right: &Tensor<R, E>) -> Tensor<S::Output, E>
    where
        S: MatrixProduct<R>,
    {
        let shape = self.shape().product(right.shape());
        let b = right.any().viewed(right.any().layout().transposed());
        Tensor::typed(shape, product(self.any(), &b))
    }
}

/// `a` over (shared…, more…, K) times `b` over (shared…, N, K), or over (K) alone. Knows no shape, so that
/// it is compiled once for all.
fn product<E: Float>(a: &AnyTensor<E>, b: &AnyTensor<E>) -> AnyTensor<E> {
    if b.rank() == 1 {
        let column = product(a, &b.viewed(b.layout().expanded(0)));
        return column.viewed(column.layout().at(column.rank() - 1, 0));
    }
    let last = a.rank() - 1;
    let dims = a.layout().dims.replaced(last, b.dims()[b.rank() - 2]);
    let result = AnyTensor::from_packed(&dims, multiplied(a.view(), b.view()));
    result.recorded(&[a, b], || {
        let shared = b.rank() - 2;
        let right = a.is_recorded().then(|| b.detached());
        let left = b.is_recorded().then(|| a.detached());
        move |g| {
            let of_left = right.as_ref().map(|b| product(g, &b.viewed(b.layout().transposed())));
            let of_right = left.as_ref().map(|a| {
                let columns = [g, a].map(|rows| {
                    let rows = in_one_axis(rows, shared);
                    rows.viewed(rows.layout().transposed())
                });
                product(&columns[0], &columns[1])
            });
            vec![of_left, of_right]
        }
    })
}

/// The axes between the first `shared` ones and the last as one.
fn in_one_axis<E: Float>(x: &AnyTensor<E>, shared: usize) -> AnyTensor<E> {
    match x.rank() - 1 - shared {
        0 => x.viewed(x.layout().expanded(shared)),
        1 => x.clone(),
        _ => {
            let (dims, last) = (x.dims(), x.rank() - 1);
            let rows = dims[shared..last].iter().product();
            x.reshaped(&[&dims[..shared], &[rows, dims[last]]].concat())
        }
    }
}

/// The elements of [`product`], where `b` has a column for each N.
fn multiplied<E: Float>(mut a: View<E>, mut b: View<E>) -> Vec<E> {
    let last = a.layout.rank() - 1;
    let shared = b.layout.rank() - 2;
    let columns = b.layout.dims[shared];
    b.layout = b.layout.transposed();
    if shared == 0 {
        return linear(a, b, None);
    }
    if last == shared {
        a.layout = a.layout.expanded(shared); // one row for each of the shared entries
    }
    // The right side's matrix, repeated over the left side's axes between the shared ones and rows.
    let rank = a.layout.rank();
    let dims = a.layout.dims.replaced(rank - 2, b.layout.dims[shared]).replaced(rank - 1, columns);
    let at: Vec<usize> = (0..shared).chain([rank - 2, rank - 1]).collect();
    b.layout = b.layout.broadcast(&dims, &at);
    gemm(a, b, None)
}
