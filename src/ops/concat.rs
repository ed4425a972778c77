//! Joining tensors: along an axis that they have, and along a new one.

use crate::axis::Axis;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::index;
use crate::shape::{HasAxis, Marker, Prepends, SameAxes, Shape};
use crate::size::{C, Plus, Size};
use crate::tensor::{AnyTensor, Tensor, with_elements};

impl<S: Shape, E: Element> Tensor<S, E> {
    /// `other` behind this tensor, along a named axis. All other axes must be the same.
    ///
    /// # Shapes
    /// The named axis gets the sum of both sizes: `Seq<C<3>>` and `Seq<C<4>>` give `Seq<C<7>>`; with
    /// a run-time size among them, a symbolic sum.
    ///
    /// # Compile errors
    /// `concat_must_agree_on_the_other_axes`: "(…, Model<C<9>>) cannot be joined to (…,
    /// Model<C<8>>)".
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Seq, Tensor, C};
    ///
    /// let past = Tensor::<(Batch<C<2>>, Seq<C<1>>)>::from([[1.0], [2.0]]);
    /// let new = Tensor::<(Batch<C<2>>, Seq<C<2>>)>::from([[3.0, 4.0], [5.0, 6.0]]);
    /// let all: Tensor<(Batch<C<2>>, Seq<C<3>>)> = past.concat(&new, Seq);
    /// assert_eq!(all.to_vec(), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
    /// ```
    pub fn concat<T: Shape, A, N1: Plus<N2>, N2: Size, I: Marker>(
        &self,
        other: &Tensor<T, E>,
        _axis: fn(N1) -> A,
    ) -> Tensor<S::With<A::With<N1::Sum>>, E>
    where
        A: Axis<Size = N1>,
        S: HasAxis<A, I>,
        T: HasAxis<A::With<N2>, I>,
        T::Without: SameAxes<S::Without>,
    {
        let (mine, others) = (self.shape().axis().size(), other.shape().axis().size());
        let sum = mine.try_plus(others).unwrap_or_else(|error| {
            unreachable!("two sizes of tensors add without overflow: {error}")
        });
        let shape = self.shape().with(A::with(sum));
        Tensor::typed(shape, AnyTensor::joined(&[self.any(), other.any()], S::AT))
    }
}

/// Tensors of one shape along a new first axis, one entry each.
///
/// # Errors
/// Where `tensors` is empty.
///
/// # Examples
/// ```
/// use shapeproof::{axis, try_stack, Model, Tensor, C};
///
/// axis!(Layer);
///
/// let x = Tensor::<(Model<C<2>>,)>::from([1.0, 2.0]);
/// let y = Tensor::<(Model<C<2>>,)>::from([3.0, 4.0]);
/// let both: Tensor<(Layer<C<2>>, Model<C<2>>)> = try_stack([&x, &y], Layer)?;
/// assert_eq!(both.to_vec(), [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub fn try_stack<S: Shape, E: Element, A: Axis, const N: usize>(
    tensors: [&Tensor<S, E>; N],
    axis: fn(C<N>) -> A,
) -> Result<Tensor<S::Output, E>>
where
    S: Prepends<A>,
{
    let first = tensors.first().ok_or_else(|| Error::shape("no tensors to stack"))?;
    let shape = first.shape().prepend(axis(C));
    let entry = |tensor: &Tensor<S, E>| tensor.any().viewed(tensor.any().layout().expanded(0));
    let entries = tensors.map(entry);
    let entries: Vec<_> = entries.iter().collect();
    Ok(Tensor::typed(shape, AnyTensor::joined(&entries, 0)))
}

impl<E: Element> AnyTensor<E> {
    /// The parts one after the other along an axis, all of whose other sizes are the same. Knows no shape,
    /// so that it is compiled once for all.
    pub(crate) fn joined(parts: &[&Self], at: usize) -> Self {
        let sizes = parts.iter().map(|part| part.dims()[at]);
        let dims = parts[0].layout().dims.replaced(at, sizes.clone().sum());
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        Self::from_packed(&dims, index::concat(&views, at)).recorded_any(parts, || {
            let sizes: Vec<_> = sizes.collect();
            move |gradient| {
                let mut start = 0;
                let part = |&size: &usize| {
                    let from = start;
                    start += size;
                    Some(with_elements!(gradient, g => float g.viewed(g.layout().sliced(at, from, size))))
                };
                sizes.iter().map(part).collect()
            }
        })
    }
}
