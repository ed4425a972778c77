//! Sorting, the largest k, running sums: along a named axis, which keeps its place.

use crate::axis::{Axis, Rank};
use crate::element::{Element, Float};
use crate::error::{Error, Result};
pub use crate::kernel::scan::Order;
use crate::kernel::{scan, scatter};
use crate::shape::{HasAxis, Marker, Shape};
use crate::size::Size;
use crate::tensor::{AnyTensor, Tensor, with_elements};

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The elements in order along an axis, and where each stood. Equal elements keep their order;
    /// NaN comes last.
    ///
    /// ```
    /// use shapeproof::{Key, Order, Tensor, C};
    ///
    /// let x = Tensor::<(Key<C<3>>,)>::from([2.0, 3.0, 1.0]);
    /// let (sorted, places) = x.sort(Key, Order::Descending);
    /// assert_eq!(sorted.to_vec(), [3.0, 2.0, 1.0]);
    /// assert_eq!(places.to_vec(), [1, 0, 2]);
    /// ```
    pub fn sort<A: Axis, N, I: Marker>(
        &self,
        _axis: fn(N) -> A,
        order: Order,
    ) -> (Tensor<S, E>, Tensor<S, usize>)
    where
        S: HasAxis<A, I>,
    {
        let (values, places) = scan::sort(self.any().view(), S::AT, order);
        let values = self.any().in_order(S::AT, self.dims()[S::AT], values, &places);
        (Tensor::typed(self.shape(), values), self.with_data(places))
    }

    /// The `k` largest elements along an axis, largest first, and where each stood. The axis becomes
    /// [`Rank`]; of equal elements the first wins.
    ///
    /// # Errors
    /// Where the axis has fewer than `k` entries.
    pub fn try_top_k<A: Axis, N, I: Marker, K: Size>(
        &self,
        _axis: fn(N) -> A,
        k: K,
    ) -> Result<(Tensor<S::With<Rank<K>>, E>, Tensor<S::With<Rank<K>>, usize>)>
    where
        S: HasAxis<A, I>,
    {
        let n = self.dims()[S::AT];
        if k.get() > n {
            return Err(Error::index(format!(
                "axis {} has {n} entries, no {} largest",
                A::NAME,
                k.get()
            )));
        }
        let (values, places) = scan::top_k(self.any().view(), S::AT, k.get());
        let shape = self.shape().with(Rank(k));
        let values = self.any().in_order(S::AT, k.get(), values, &places);
        Ok((Tensor::typed(shape, values), Tensor::from_packed(shape, places)))
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// The running sum along an axis: entry i is the sum of entries 0 to i.
    ///
    /// ```
    /// use shapeproof::{Heads, Seq, Tensor, C};
    ///
    /// let x = Tensor::<(Seq<C<2>>, Heads<C<2>>)>::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.cumsum(Seq).to_vec(), [1.0, 2.0, 4.0, 6.0]);
    /// ```
    pub fn cumsum<A: Axis, N, I: Marker>(&self, _axis: fn(N) -> A) -> Self
    where
        S: HasAxis<A, I>,
    {
        Tensor::typed(self.shape(), self.any().cumsum(S::AT))
    }
}

// The rules, in functions that know no shape.
impl<E: Element> AnyTensor<E> {
    /// `k` elements of each line of this tensor along an axis, given where each stood.
    fn in_order(&self, at: usize, k: usize, values: Vec<E>, places: &[usize]) -> Self {
        let dims = self.layout().dims;
        Self::from_packed(&dims.replaced(at, k), values).recorded_any(&[self], || {
            let places = places.to_vec();
            move |gradient| {
                vec![Some(with_elements!(gradient, g => float AnyTensor::from_packed(
                    &dims,
                    scatter::along(g.view(), at, &places, dims[at]),
                )))]
            }
        })
    }
}

impl<E: Float> AnyTensor<E> {
    fn cumsum(&self, at: usize) -> Self {
        let result = Self::from_packed(self.dims(), scan::cumsum(self.view(), at));
        result.recorded_from(self, || {
            move |g: &Self| Self::from_packed(g.dims(), scan::cumsum_backward(g.view(), at))
        })
    }
}
