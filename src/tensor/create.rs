//! Making tensors: constants, functions of the index, arrays, vectors.

use super::{AnyTensor, Tensor};
use crate::axis::Axis;
use crate::element::{Element, Float};
use crate::error::Result;
use crate::shape::{FixedSizes, Shape};
use crate::size::{C, Known};
use generic_array::{ArrayLength, GenericArray};

// The bounds stand on the functions: in the header, what is no shape would read as a function that is
// missing.
impl<S, E> Tensor<S, E> {
    /// Every element `value`; for shapes whose sizes are all static.
    pub fn full(value: E) -> Self
    where
        S: Shape + FixedSizes,
        E: Element,
    {
        Self::full_in(S::fixed(), value)
    }

    /// Every element `value`.
    ///
    /// # Panics
    /// Where there are more elements than the machine can count or hold, as `vec![…]` does. Sizes
    /// from outside are checked first by [`Shape::try_count`].
    pub fn full_in(shape: S, value: E) -> Self
    where
        S: Shape,
        E: Element,
    {
        let count = shape.try_count().unwrap_or_else(|error| panic!("{error}"));
        Self::from_packed(shape, vec![value; count])
    }

    /// Every element 0 (`false` for booleans); for shapes whose sizes are all static.
    pub fn zeros() -> Self
    where
        S: Shape + FixedSizes,
        E: Element,
    {
        Self::full(E::default())
    }

    /// Every element 0 (`false` for booleans).
    ///
    /// # Panics
    /// As [`full_in`](Self::full_in).
    pub fn zeros_in(shape: S) -> Self
    where
        S: Shape,
        E: Element,
    {
        Self::full_in(shape, E::default())
    }

    /// Each element the value of `make` at its index, one number an axis; for shapes whose sizes are
    /// all static.
    ///
    /// ```
    /// use shapeproof::{Key, Query, Tensor, C};
    ///
    /// let distance = Tensor::<(Query<C<2>>, Key<C<3>>)>::from_fn(|at| at[1] as f32 - at[0] as f32);
    /// assert_eq!(distance.to_vec(), [0.0, 1.0, 2.0, -1.0, 0.0, 1.0]);
    /// ```
    pub fn from_fn(make: impl FnMut(&[usize]) -> E) -> Self
    where
        S: Shape + FixedSizes,
        E: Element,
    {
        Self::from_fn_in(S::fixed(), make)
    }

    /// Each element the value of `make` at its index, one number an axis.
    ///
    /// # Panics
    /// As [`full_in`](Self::full_in).
    pub fn from_fn_in(shape: S, mut make: impl FnMut(&[usize]) -> E) -> Self
    where
        S: Shape,
        E: Element,
    {
        let dims = shape.dims();
        let count = shape.try_count().unwrap_or_else(|error| panic!("{error}"));
        let mut index = dims;
        index.fill(0);
        let mut data = Vec::with_capacity(count);
        for _ in 0..count {
            data.push(make(&index));
            for (i, &n) in index.iter_mut().zip(dims.iter()).rev() {
                *i += 1;
                if *i < n {
                    break;
                }
                *i = 0;
            }
        }
        Self::from_packed(shape, data)
    }

    /// The elements of `data`, in row-major order.
    ///
    /// # Errors
    /// Where `data` has another number of elements.
    pub fn try_from_vec(shape: S, data: Vec<E>) -> Result<Self>
    where
        S: Shape,
        E: Element,
    {
        Ok(Self::typed(shape, AnyTensor::try_from_vec(&shape.dims(), data)?))
    }

    /// A copy of the elements of `data`, in row-major order.
    ///
    /// # Errors
    /// Where `data` has another number of elements.
    pub fn try_from_slice(shape: S, data: &[E]) -> Result<Self>
    where
        S: Shape,
        E: Element,
    {
        Self::try_from_vec(shape, data.to_vec())
    }
}

impl<S, E> Tensor<S, E> {
    /// Every element 1; for shapes whose sizes are all static.
    pub fn ones() -> Self
    where
        S: Shape + FixedSizes,
        E: Float,
    {
        Self::full(E::from_f64(1.0))
    }

    /// Every element 1.
    ///
    /// # Panics
    /// As [`full_in`](Self::full_in).
    pub fn ones_in(shape: S) -> Self
    where
        S: Shape,
        E: Float,
    {
        Self::full_in(shape, E::from_f64(1.0))
    }
}

macro_rules! nested_arrays {
    // the array's type from the inside out: [axis size]…, then its elements flattened in order
    ($($A:ident $N:ident),+; $Array:ty; $value:ident => $flat:expr) => {
        impl<E: Element, $($A, const $N: usize),+> From<$Array> for Tensor<($($A,)+), E>
        where
            $($A: Axis<Size = C<$N>> + Default),+
        {
            fn from($value: $Array) -> Self {
                let shape = ($($A::default(),)+);
                Self::from_packed(shape, $flat)
            }
        }
    };
}
nested_arrays! { A0 N0; [E; N0]; value => value.to_vec() }
nested_arrays! { A0 N0, A1 N1; [[E; N1]; N0]; value => value.as_flattened().to_vec() }
nested_arrays! {
    A0 N0, A1 N1, A2 N2; [[[E; N2]; N1]; N0];
    value => value.as_flattened().as_flattened().to_vec()
}
nested_arrays! {
    A0 N0, A1 N1, A2 N2, A3 N3; [[[[E; N3]; N2]; N1]; N0];
    value => value.as_flattened().as_flattened().as_flattened().to_vec()
}

impl<E: Element, A: Axis<Size: Known<U = N>> + Default, N: ArrayLength> From<GenericArray<E, N>>
    for Tensor<(A,), E>
{
    fn from(row: GenericArray<E, N>) -> Self {
        let shape = (A::default(),);
        Self::from_packed(shape, row.to_vec())
    }
}

impl<E, A, B, M, N> From<GenericArray<GenericArray<E, N>, M>> for Tensor<(A, B), E>
where
    E: Element,
    A: Axis<Size: Known<U = M>> + Default,
    B: Axis<Size: Known<U = N>> + Default,
    M: ArrayLength,
    N: ArrayLength,
{
    fn from(rows: GenericArray<GenericArray<E, N>, M>) -> Self {
        let shape = (A::default(), B::default());
        let data = rows.iter().flat_map(|row| row.iter().copied()).collect();
        Self::from_packed(shape, data)
    }
}
