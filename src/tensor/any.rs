//! The tensor without its shape in the type.

use super::Tensor;
use super::node::Node;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::elementwise::pack;
use crate::kernel::layout::{Layout, MAX_RANK, View, checked_count};
use crate::shape::Shape;
use std::sync::Arc;

/// A tensor whose sizes are values, not types.
///
/// This is what leaves the scope of a run-time size, what files and trait objects carry, and what
/// the typed layer is built on. [`try_typed`](Self::try_typed) checks the sizes once and goes back
/// to types; after that nothing is checked again.
///
/// # Examples
/// ```
/// use shapeproof::{dyn_size, AnyTensor, Batch, Model, C};
///
/// let read = AnyTensor::try_from_vec(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
///
/// dyn_size!(batch = read.dims()[0]);
/// let x = read.try_typed((Batch(batch), Model(C::<3>)))?;
/// assert_eq!(x.mean(Model).to_vec(), [2.0, 5.0]);
///
/// let wrong = read.try_typed((Batch(batch), Model(C::<4>))).unwrap_err();
/// assert_eq!(wrong.to_string(), "expected shape (Batch 2, Model 4), found sizes [2, 3]");
/// # Ok::<(), shapeproof::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyTensor<E = f32> {
    data: Arc<Vec<E>>,
    layout: Layout,
    /// How it was computed, where a gradient may be asked for.
    node: Option<Arc<Node>>,
}

impl<E: Element> AnyTensor<E> {
    /// A tensor of the sizes `dims`, its elements in row-major order.
    ///
    /// # Errors
    /// Where `data` has another number of elements, or `dims` more than six sizes.
    pub fn try_from_vec(dims: &[usize], data: Vec<E>) -> Result<Self> {
        let count = count_of(dims)?;
        if data.len() != count {
            return Err(Error::shape(format!(
                "shape {dims:?} needs {count} elements, found {}",
                data.len()
            )));
        }
        Ok(Self::from_packed(dims, data))
    }

    /// The caller has established that `data` has as many elements as `dims` say.
    pub(crate) fn from_packed(dims: &[usize], data: Vec<E>) -> Self {
        Self::in_layout(Layout::packed(dims), data)
    }

    /// The caller has established that every element of `layout` lies in `data`.
    pub(crate) fn in_layout(layout: Layout, data: Vec<E>) -> Self {
        AnyTensor { data: Arc::new(data), layout, node: None }
    }

    /// The sizes of the axes, in order.
    pub fn dims(&self) -> &[usize] {
        &self.layout.dims
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.layout.count()
    }

    /// The same tensor with a shape in its type; shares the elements.
    ///
    /// # Errors
    /// Where the sizes differ; the error has both shapes.
    pub fn try_typed<S: Shape>(&self, shape: S) -> Result<Tensor<S, E>> {
        if *shape.dims() != *self.layout.dims {
            return Err(Error::shape(format!(
                "expected shape {}, found sizes {:?}",
                super::display::shape_text(S::NAMES, &shape.dims()),
                self.dims()
            )));
        }
        Ok(Tensor::typed(shape, self.clone()))
    }

    /// The elements in row-major order, where the tensor lies in memory like that.
    pub fn as_slice(&self) -> Option<&[E]> {
        self.view().as_slice()
    }

    /// The elements in row-major order.
    pub fn to_vec(&self) -> Vec<E> {
        pack(self.view())
    }

    /// The elements in row-major order; copies them only where they are shared with another tensor or lie
    /// in memory out of order.
    pub fn into_vec(self) -> Vec<E> {
        let whole = self.layout.is_packed() && self.layout.count() == self.data.len();
        match Arc::try_unwrap(self.data) {
            Ok(data) if whole => data,
            Ok(data) => pack(View { data: &data, layout: self.layout }),
            Err(shared) => pack(View { data: &shared, layout: self.layout }),
        }
    }

    /// The same tensor, in row-major order without gaps; copies only where it is not so already.
    pub fn packed(&self) -> Self {
        if self.layout.is_packed() {
            return self.clone();
        }
        self.copied()
    }

    /// The same tensor in memory of its own, in row-major order.
    pub(crate) fn copied(&self) -> Self {
        let mut copy = Self::from_packed(self.dims(), self.to_vec());
        copy.node = self.node.clone();
        copy
    }

    /// The element at `index`, one number an axis.
    ///
    /// # Errors
    /// Where `index` has not one number an axis, or one lies outside its axis.
    pub fn try_at(&self, index: &[usize]) -> Result<E> {
        let inside =
            index.len() == self.rank() && index.iter().zip(self.dims()).all(|(i, n)| i < n);
        if !inside {
            return Err(Error::index(format!(
                "expected one number below each of the sizes {:?}, found {index:?}",
                self.dims()
            )));
        }
        let steps = index.iter().zip(self.layout.strides.iter()).map(|(i, stride)| i * stride);
        Ok(self.data[self.layout.offset + steps.sum::<usize>()])
    }

    /// The first element. The caller has established that there is one.
    pub(crate) fn first(&self) -> E {
        self.data[self.layout.offset]
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    pub(super) fn set_node(&mut self, node: Option<Arc<Node>>) {
        self.node = node;
    }

    /// What kernels read.
    pub(crate) fn view(&self) -> View<'_, E> {
        View { data: &self.data, layout: self.layout }
    }

    /// The elements to be written, and where they lie: no other tensor has them, and no two share a
    /// place. Copied first where that is not so. What was recorded of the tensor goes.
    pub(crate) fn owned(&mut self) -> (&mut [E], Layout) {
        self.node = None;
        if Arc::strong_count(&self.data) > 1 || !self.layout.is_injective() {
            *self = Self::from_packed(self.dims(), self.to_vec());
        }
        // Copies nothing any more. A weak reference, by which packed weights are recognised, is left
        // with the old storage.
        (Arc::<Vec<E>>::make_mut(&mut self.data), self.layout)
    }

    /// The elements in row-major order, to be written: no other tensor has them. Copied first where that
    /// is not so.
    pub(crate) fn packed_mut(&mut self) -> &mut [E] {
        if !self.layout.is_packed() {
            *self = Self::from_packed(self.dims(), self.to_vec());
        }
        let (data, layout) = self.owned();
        let count = layout.count();
        if count == 0 { &mut [] } else { &mut data[layout.offset..layout.offset + count] }
    }

    /// The same elements through another layout, which stays inside of this one's.
    pub(crate) fn viewed(&self, layout: Layout) -> Self {
        if layout == self.layout {
            return self.clone();
        }
        AnyTensor { data: self.data.clone(), layout, node: None }.recorded_view(self)
    }

    /// Changes the elements by `in_place`, in row-major order, where no other tensor shares them and they
    /// are packed. Otherwise takes the elements that `anew` makes of the old ones; whoever shares those
    /// keeps them as they are. What was recorded of the old ones goes: the caller records what was done.
    pub(crate) fn update(
        &mut self,
        in_place: impl FnOnce(&mut [E]),
        anew: impl FnOnce(View<'_, E>) -> Vec<E>,
    ) {
        self.node = None;
        match self.exclusive() {
            Some(elements) => in_place(elements),
            None => *self = Self::from_packed(self.dims(), anew(self.view())),
        }
    }

    fn exclusive(&mut self) -> Option<&mut [E]> {
        if !self.layout.is_packed() {
            return None;
        }
        let (start, count) = (self.layout.offset, self.layout.count());
        // `None` also beside a weak reference: packed weights are known by their storage.
        let data = Arc::get_mut(&mut self.data)?;
        Some(if count == 0 { &mut [] } else { &mut data[start..start + count] })
    }

    /// The shared storage: two tensors with one storage have the same elements, for as long as
    /// either lives.
    pub(crate) fn storage(&self) -> &Arc<Vec<E>> {
        &self.data
    }
}

impl<E: Element> PartialEq for AnyTensor<E> {
    /// Same sizes and equal elements. NaN is not equal to itself.
    fn eq(&self, other: &Self) -> bool {
        self.dims() == other.dims() && self.packed().as_slice() == other.packed().as_slice()
    }
}

/// The number of elements of sizes from outside.
pub(super) fn count_of(dims: &[usize]) -> Result<usize> {
    if dims.len() > MAX_RANK {
        let found = dims.len();
        return Err(Error::shape(format!("{found} axes, a tensor has at most {MAX_RANK}")));
    }
    checked_count(dims).ok_or_else(|| Error::count_overflow(dims))
}
