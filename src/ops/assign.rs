//! Writing over a part of a tensor.

use super::rearrange::checked_entry;
use crate::axis::Axis;
use crate::element::Element;
use crate::error::Result;
use crate::kernel::assign::assign;
use crate::kernel::layout::{Layout, View};
use crate::shape::{HasAxis, Marker, Shape};
use crate::tensor::{AnyTensor, FloatTensor, Tensor, with_elements};

impl<S: Shape, E: Element> Tensor<S, E> {
    /// Writes `entry` over one entry of an axis: the inverse of [`try_select`](Self::try_select).
    ///
    /// This is how a cache of keys and values grows by one position without being copied: in place
    /// where no clone or view shares the elements. Otherwise this tensor is copied first, so clones
    /// and views that exist never change.
    ///
    /// # Shapes
    /// `entry` has the axes of this tensor without the one that is named.
    ///
    /// # Errors
    /// Where `index` is not below the axis's size; nothing is written then.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{HeadDim, Key, Tensor, C};
    ///
    /// let mut cache = Tensor::<(Key<C<3>>, HeadDim<C<2>>)>::zeros();
    /// let before = cache.clone();
    /// cache.try_assign(Key, 1, &Tensor::from([4.0, 5.0]))?;
    /// assert_eq!(cache.to_vec(), [0.0, 0.0, 4.0, 5.0, 0.0, 0.0]);
    /// assert_eq!(before.to_vec(), [0.0; 6]);
    /// assert!(cache.try_assign(Key, 3, &Tensor::from([6.0, 7.0])).is_err());
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn try_assign<A: Axis, N, I: Marker>(
        &mut self,
        _axis: fn(N) -> A,
        index: usize,
        entry: &Tensor<S::Without, E>,
    ) -> Result<()>
    where
        S: HasAxis<A, I>,
    {
        let index = checked_entry(self.dims(), S::AT, index, A::NAME)?;
        self.any_mut().assign(S::AT, index, entry.any());
        Ok(())
    }
}

// Knows no shape, so that it is compiled once for all.
impl<E: Element> AnyTensor<E> {
    fn assign(&mut self, at: usize, index: usize, entry: &Self) {
        let nodes = [self.node().cloned(), entry.node().cloned()];
        self.overwrite(at, index, entry.view());
        if nodes.iter().any(Option::is_some) {
            let rule = move |gradient: &FloatTensor| {
                let before = with_elements!(gradient, g => float g.without_entry(at, index));
                let entry = with_elements!(gradient, g => float g.viewed(g.layout().at(at, index)));
                vec![Some(before), Some(entry)]
            };
            self.record_any(nodes.into(), Box::new(rule));
        }
    }

    fn overwrite(&mut self, at: usize, index: usize, entry: View<E>) {
        let (data, layout) = self.owned();
        assign(entry, data, &layout.at(at, index));
    }

    fn without_entry(&self, at: usize, index: usize) -> Self {
        let dims = self.layout().dims.removed(at);
        let zeros = Layout::packed(&[]).broadcast(&dims, &[]);
        let mut others = self.clone();
        others.overwrite(at, index, View { data: &[E::default()], layout: zeros });
        others
    }
}

#[cfg(test)]
mod tests {
    use crate::axis::{Batch, Seq};
    use crate::size::C;
    use crate::tensor::Tensor;

    #[test]
    fn of_a_repeated_row_one_place_changes() {
        let row = Tensor::<(Seq<C<3>>,), i32>::from([1, 2, 3]);
        let repeated = row.any().layout().broadcast(&[2, 3], &[1]);
        let mut x = row.viewed((Batch(C::<2>), Seq(C::<3>)), repeated);
        drop(row);
        x.try_assign(Batch, 1, &Tensor::from([4, 5, 6])).unwrap();
        assert_eq!(x.to_vec(), [1, 2, 3, 4, 5, 6]);
    }
}
