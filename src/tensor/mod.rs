//! The tensor: a typed shape around shared, strided storage.

mod any;
mod convert;
mod create;
mod display;
#[cfg(feature = "ndarray")]
mod ndarray;
mod node;
mod random;
mod rows;
mod unview;

pub use any::AnyTensor;
pub use convert::{FloatSliceMut, FloatTensor};
pub(crate) use display::shape_text;
pub use node::ParameterId;
pub(crate) use node::{Node, ViewOf, with_elements};
pub use random::Generator;

use crate::element::Element;
use crate::kernel::layout::Layout;
use crate::shape::{Scalar, Shape};

/// A tensor whose type names its axes and their sizes.
///
/// `S` is a [`Shape`], a tuple of axes; `E` is what it holds. A tensor is cheap to clone: clones and
/// views share their elements, and none of them ever sees a change made through another: methods that
/// take `&mut self` reuse the memory of a tensor that shares with none, and leave it alone where it is
/// shared. The layout is the tensor's own business: `split_heads`, `permute` and `transpose` move no
/// data, and whatever reads the result gets the same bits as from a packed copy.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Model, Tensor, C};
///
/// let x = Tensor::<(Batch<C<2>>, Model<C<3>>)>::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let bias = Tensor::<(Model<C<3>>,)>::from([10.0, 20.0, 30.0]);
/// assert_eq!(x.add(&bias).to_vec(), [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
/// ```
#[derive(Clone)]
pub struct Tensor<S, E = f32> {
    shape: S,
    any: AnyTensor<E>,
}

impl<S: Shape, E: Element> Tensor<S, E> {
    /// The caller has established that `any` has the sizes of `shape`.
    pub(crate) fn typed(shape: S, any: AnyTensor<E>) -> Self {
        debug_assert_eq!(*shape.dims(), *any.layout().dims);
        Tensor { shape, any }
    }

    /// All axes with their sizes.
    ///
    /// ```
    /// use shapeproof::{dyn_size, Batch, C, Key, Seq, Tensor};
    ///
    /// dyn_size!(length = 3);
    /// let x = Tensor::<_, f32>::ones_in((Batch(C::<2>), Seq(length)));
    /// let (Batch(batch), Seq(length)) = x.shape(); // sizes, for other axes
    /// let mask = Tensor::full_in((Batch(batch), Key(length)), true);
    /// assert_eq!(mask.dims(), [2, 3]);
    /// ```
    pub fn shape(&self) -> S {
        self.shape
    }

    /// The sizes of the axes, in order.
    pub fn dims(&self) -> &[usize] {
        self.any.dims()
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.any.count()
    }

    /// The same tensor with its shape erased from the type; shares the elements.
    pub fn erase(&self) -> AnyTensor<E> {
        self.any.clone()
    }

    /// The erased form, by reference.
    pub(crate) fn any(&self) -> &AnyTensor<E> {
        &self.any
    }

    /// The erased form.
    pub(crate) fn into_any(self) -> AnyTensor<E> {
        self.any
    }

    /// The erased form, to be changed; its sizes stay.
    pub(crate) fn any_mut(&mut self) -> &mut AnyTensor<E> {
        &mut self.any
    }

    /// The same elements, from which no gradient flows back: what is computed from them does not reach
    /// the parameters that this tensor was computed from. This is the one way to cut.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Mode, Model, Parameter, Tensor, Train, C};
    ///
    /// let p = Parameter::new(Tensor::<(Model<C<2>>,)>::from([1.0, 2.0]));
    /// let mut train = Train::seeded(1);
    /// let x = train.read(&p);
    /// let loss = x.mul(&x.detach()).sum_all();
    /// assert_eq!(train.backward(&loss).of(&p).to_vec(), [1.0, 2.0]); // not [2.0, 4.0]
    /// ```
    pub fn detach(&self) -> Self {
        Tensor { shape: self.shape, any: self.any.detached() }
    }

    /// The elements in row-major order, where the tensor lies in memory like that; `None` where it
    /// is a strided view. [`packed`](Self::packed) makes one that does.
    pub fn as_slice(&self) -> Option<&[E]> {
        self.any.as_slice()
    }

    /// The elements in row-major order.
    pub fn to_vec(&self) -> Vec<E> {
        self.any.to_vec()
    }

    /// The same tensor, in row-major order without gaps; copies only where it is not so already.
    pub fn packed(&self) -> Self {
        Tensor { shape: self.shape, any: self.any.packed() }
    }

    /// The element at `index`, one number an axis.
    ///
    /// # Errors
    /// Where `index` has not one number an axis, or one lies outside its axis.
    pub fn try_at(&self, index: &[usize]) -> crate::Result<E> {
        self.any.try_at(index)
    }

    /// The element of a tensor without axes.
    ///
    /// # Compile errors
    /// `value_must_be_of_a_scalar`: "a tensor over (Key<C<3>>,) is not one number".
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Key, Tensor, C};
    ///
    /// let x = Tensor::<(Key<C<3>>,)>::from([1.0, 2.0, 6.0]);
    /// assert_eq!(x.mean(Key).value(), 3.0);
    /// ```
    pub fn value(&self) -> E
    where
        S: Scalar,
    {
        self.any.first()
    }

    /// A packed tensor. The caller has established that `data` has as many elements as the shape.
    pub(crate) fn from_packed(shape: S, data: Vec<E>) -> Self {
        Tensor::typed(shape, AnyTensor::from_packed(&shape.dims(), data))
    }

    /// A packed tensor of this one's shape; `data` has as many elements.
    pub(crate) fn with_data<F: Element>(&self, data: Vec<F>) -> Tensor<S, F> {
        Tensor::from_packed(self.shape, data)
    }

    /// The same elements seen through another layout; `shape` has the layout's sizes.
    pub(crate) fn viewed<T: Shape>(&self, shape: T, layout: Layout) -> Tensor<T, E> {
        Tensor::typed(shape, self.any.viewed(layout))
    }
}

impl<E: Element> Tensor<(), E> {
    /// A tensor of one element and no axis.
    pub fn scalar(value: E) -> Self {
        Tensor::full(value)
    }
}

impl<S: Shape, E: Element> PartialEq for Tensor<S, E> {
    /// Same sizes and equal elements. NaN is not equal to itself.
    fn eq(&self, other: &Self) -> bool {
        self.any == other.any
    }
}
