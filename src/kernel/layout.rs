//! Where the elements of a strided block lie.
//!
//! A [`Layout`] has a size and a stride (in elements) for each axis and the offset of its first
//! element. Stride 0 repeats one element along an axis: that is how broadcasting costs nothing.

use std::ops::Deref;

/// The most axes a tensor can have.
pub(crate) const MAX_RANK: usize = 6;

/// Up to six numbers, one for each axis; reads like a slice.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Dims {
    rank: usize,
    values: [usize; MAX_RANK],
}

impl Dims {
    /// `values` must not be longer than [`MAX_RANK`].
    pub(crate) fn new(values: &[usize]) -> Self {
        let mut dims = Dims { rank: values.len(), values: [0; MAX_RANK] };
        dims.values[..values.len()].copy_from_slice(values);
        dims
    }

    /// `value` put before the number at `at`.
    pub(crate) fn inserted(self, at: usize, value: usize) -> Self {
        let mut dims = Dims { rank: self.rank + 1, values: self.values };
        dims.values.copy_within(at..self.rank, at + 1);
        dims.values[at] = value;
        dims
    }

    /// The numbers without the one at `at`.
    pub(crate) fn removed(self, at: usize) -> Self {
        let mut dims = Dims { rank: self.rank - 1, values: self.values };
        dims.values.copy_within(at + 1..self.rank, at);
        dims.values[dims.rank] = 0;
        dims
    }

    /// The numbers with `value` at `at`.
    pub(crate) fn replaced(mut self, at: usize, value: usize) -> Self {
        self[..][at] = value;
        self
    }
}

impl Deref for Dims {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.values[..self.rank]
    }
}

impl std::ops::DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.values[..self.rank]
    }
}

impl std::fmt::Debug for Dims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// The number of elements of a block, or `None` where it, or any product of its non-zero sizes,
/// exceeds `isize::MAX`.
///
/// Counting the non-zero sizes alone means that later sums and products of sizes of a block that
/// exists cannot overflow, also where another axis is empty.
pub(crate) fn checked_count(dims: &[usize]) -> Option<usize> {
    let nonzero = dims
        .iter()
        .filter(|&&n| n != 0)
        .try_fold(1usize, |product, &n| product.checked_mul(n))
        .filter(|&product| isize::try_from(product).is_ok())?;
    Some(if dims.contains(&0) { 0 } else { nonzero })
}

/// The number of elements of a block that is about to be made.
///
/// # Panics
/// Where [`checked_count`] has none. Sizes that come together for the first time, as the rows of one
/// block and the columns of another, go through here before anything is allocated: a product that
/// wrapped around would promise more elements than there are.
pub(crate) fn count(dims: &[usize]) -> usize {
    checked_count(dims)
        .unwrap_or_else(|| panic!("the sizes {dims:?} multiply to more than isize::MAX elements"))
}

/// Sizes, strides and offset of a block within a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) dims: Dims,
    pub(crate) strides: Dims,
    pub(crate) offset: usize,
}

impl Layout {
    /// Row-major, without gaps.
    ///
    /// # Panics
    /// As [`count`].
    pub(crate) fn packed(dims: &[usize]) -> Self {
        count(dims);
        let mut strides = Dims::new(dims);
        let mut step = 1;
        for (stride, &n) in strides.iter_mut().zip(dims).rev() {
            *stride = step;
            step *= n.max(1);
        }
        Layout { dims: Dims::new(dims), strides, offset: 0 }
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> usize {
        // Repeated along other axes, an empty block may have sizes whose product overflows.
        if self.dims.contains(&0) { 0 } else { self.dims.iter().product() }
    }

    /// Whether the elements lie in row-major order without gaps. Strides of axes of size 1 do not
    /// matter; an empty block is packed.
    pub(crate) fn is_packed(&self) -> bool {
        if self.count() == 0 {
            return true;
        }
        let mut step = 1;
        for (&n, &stride) in self.dims.iter().zip(self.strides.iter()).rev() {
            if n != 1 && stride != step {
                return false;
            }
            step *= n;
        }
        true
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this one.
    pub(crate) fn permuted(&self, order: &[usize]) -> Self {
        let mut result = *self;
        for (i, &from) in order.iter().enumerate() {
            result.dims[i] = self.dims[from];
            result.strides[i] = self.strides[from];
        }
        result
    }

    /// The last two axes exchanged. Needs rank 2 or more.
    pub(crate) fn transposed(&self) -> Self {
        let mut result = *self;
        let rank = self.rank();
        result.dims.swap(rank - 2, rank - 1);
        result.strides.swap(rank - 2, rank - 1);
        result
    }

    /// Stretched over `dims`, which have this block's axes at the positions in `at`, ascending; the
    /// others repeat the block.
    pub(crate) fn broadcast(&self, dims: &[usize], at: &[usize]) -> Self {
        let mut strides = Dims::new(dims);
        strides.fill(0);
        for (&position, &stride) in at.iter().zip(self.strides.iter()) {
            strides[position] = stride;
        }
        Layout { dims: Dims::new(dims), strides, offset: self.offset }
    }

    /// With an axis of size 1 put before axis `at`.
    pub(crate) fn expanded(&self, at: usize) -> Self {
        self.repeated(at, 1)
    }

    /// With an axis put before axis `at` along which all of the block repeats `n` times.
    pub(crate) fn repeated(&self, at: usize, n: usize) -> Self {
        Layout {
            dims: self.dims.inserted(at, n),
            strides: self.strides.inserted(at, 0),
            offset: self.offset,
        }
    }

    /// Axis `at`, of size `outer · inner`, as two axes of those sizes.
    ///
    /// # Panics
    /// As [`count`]: an axis of size 0 may become one of any size and one of 0.
    pub(crate) fn split(&self, at: usize, outer: usize, inner: usize) -> Self {
        debug_assert_eq!(self.dims[at], outer * inner);
        let stride = self.strides[at];
        let dims = self.dims.replaced(at, inner).inserted(at, outer);
        count(&dims);
        Layout { dims, strides: self.strides.inserted(at, stride * inner), offset: self.offset }
    }

    /// Axes `at` and `at + 1` as one, or `None` where no single stride reaches their elements in
    /// order.
    pub(crate) fn merged(&self, at: usize) -> Option<Self> {
        let (outer, inner) = (self.dims[at], self.dims[at + 1]);
        let (outer_stride, inner_stride) = (self.strides[at], self.strides[at + 1]);
        let stride = if inner == 1 {
            outer_stride
        } else if outer <= 1 || inner == 0 || outer_stride == inner * inner_stride {
            inner_stride
        } else {
            return None;
        };
        Some(Layout {
            dims: self.dims.removed(at).replaced(at, outer * inner),
            strides: self.strides.removed(at).replaced(at, stride),
            offset: self.offset,
        })
    }

    /// `len` entries of axis `at`, from `start` on.
    pub(crate) fn sliced(&self, at: usize, start: usize, len: usize) -> Self {
        debug_assert!(start + len <= self.dims[at]);
        Layout {
            dims: self.dims.replaced(at, len),
            strides: self.strides,
            offset: if len == 0 { self.offset } else { self.offset + start * self.strides[at] },
        }
    }

    /// Without axis `at`, at entry `index` of it.
    pub(crate) fn at(&self, at: usize, index: usize) -> Self {
        debug_assert!(index < self.dims[at]);
        Layout {
            dims: self.dims.removed(at),
            strides: self.strides.removed(at),
            offset: self.offset + index * self.strides[at],
        }
    }

    /// Without the last two axes: where the matrices of a batch start. Needs rank 2 or more.
    pub(crate) fn without_matrix(&self) -> Self {
        let last = self.rank() - 1;
        Layout {
            dims: self.dims.removed(last).removed(last - 1),
            strides: self.strides.removed(last).removed(last - 1),
            offset: self.offset,
        }
    }

    /// The length that a buffer must have to hold the block.
    pub(crate) fn extent(&self) -> usize {
        if self.count() == 0 {
            return 0;
        }
        let last = self.dims.iter().zip(self.strides.iter()).map(|(&n, &stride)| (n - 1) * stride);
        self.offset + last.sum::<usize>() + 1
    }

    /// Whether no two elements share a place, as far as can be told axis by axis: each stride must
    /// pass over all that the smaller strides reach.
    pub(crate) fn is_injective(&self) -> bool {
        let mut axes = [(0, 0); MAX_RANK];
        let axes = &mut axes[..self.rank()];
        for (i, axis) in axes.iter_mut().enumerate() {
            *axis = if self.dims[i] > 1 { (self.strides[i], self.dims[i] - 1) } else { (0, 0) };
        }
        axes.sort_unstable();
        let mut reach = 0;
        for &(stride, steps) in axes.iter().filter(|axis| axis.1 > 0) {
            if stride <= reach {
                return false;
            }
            reach += stride * steps;
        }
        true
    }

    /// With axis `at` moved to the end.
    pub(crate) fn with_last(&self, at: usize) -> Self {
        let (n, stride) = (self.dims[at], self.strides[at]);
        let last = self.rank() - 1;
        Layout {
            dims: self.dims.removed(at).inserted(last, n),
            strides: self.strides.removed(at).inserted(last, stride),
            offset: self.offset,
        }
    }
}

/// A block of elements: a buffer and the layout within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a, E> {
    pub(crate) data: &'a [E],
    pub(crate) layout: Layout,
}

impl<'a, E> View<'a, E> {
    /// The elements as a slice, where they are packed.
    pub(crate) fn as_slice(&self) -> Option<&'a [E]> {
        let Layout { offset, .. } = self.layout;
        self.layout.is_packed().then(|| match self.layout.count() {
            0 => &[],
            count => &self.data[offset..offset + count],
        })
    }
}
