//! Comparisons, and the logic of booleans.

use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::shape::{BroadcastsTo, Marker, Shape};
use crate::tensor::Tensor;
use std::ops::{BitAnd, BitOr, Not};

// Written out, not made by a macro: a compile error quotes the method, and would quote all of the
// macro's call.
impl<S: Shape, E: Element> Tensor<S, E> {
    /// Where both are equal. NaN equals nothing. The right side broadcasts by name.
    pub fn equal<R, How: Marker>(&self, right: &Tensor<R, E>) -> Tensor<S, bool>
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, eq)
    }

    /// Where this tensor is less. The right side broadcasts by name.
    pub fn less<R, How: Marker>(&self, right: &Tensor<R, E>) -> Tensor<S, bool>
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, lt)
    }

    /// Where this tensor is less or equal. The right side broadcasts by name.
    pub fn less_equal<R, How: Marker>(&self, right: &Tensor<R, E>) -> Tensor<S, bool>
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, le)
    }

    /// Where this tensor is greater. The right side broadcasts by name.
    pub fn greater<R, How: Marker>(&self, right: &Tensor<R, E>) -> Tensor<S, bool>
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, gt)
    }

    /// Where this tensor is greater or equal. The right side broadcasts by name.
    pub fn greater_equal<R, How: Marker>(&self, right: &Tensor<R, E>) -> Tensor<S, bool>
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, ge)
    }
}

impl<S: Shape> Tensor<S, bool> {
    /// True where both are.
    pub fn and<R, How: Marker>(&self, right: &Tensor<R, bool>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, bool::bitand)
    }

    /// True where either is.
    pub fn or<R, How: Marker>(&self, right: &Tensor<R, bool>) -> Self
    where
        R: BroadcastsTo<S, How>,
    {
        self.zipped(right, bool::bitor)
    }

    /// True where this one is false.
    pub fn not(&self) -> Self {
        self.map(bool::not)
    }
}

impl<S: Shape, E: Float> Tensor<S, E> {
    /// Whether every element is within `absolute + relative · |expected|` of the expected one.
    /// Equal infinities are close; NaN is close to nothing.
    pub fn all_close(&self, expected: &Self, relative: f64, absolute: f64) -> bool {
        self.try_close(expected, relative, absolute).is_ok()
    }

    /// As [`all_close`](Self::all_close), saying where it is not so.
    ///
    /// # Errors
    /// Where an element is off: the first one's index, both values, and the largest difference.
    pub fn try_close(&self, expected: &Self, relative: f64, absolute: f64) -> Result<()> {
        if self.dims() != expected.dims() {
            return Err(Error::shape(format!(
                "expected sizes {:?}, found {:?}",
                expected.dims(),
                self.dims()
            )));
        }
        let off = |&(_, (a, b)): &(usize, (f64, f64))| {
            // Everything is within a share of infinity: only itself is close to it.
            let close = a == b || b.is_finite() && (a - b).abs() <= absolute + relative * b.abs();
            !close
        };
        let (found, wanted) = (self.to_vec(), expected.to_vec());
        let pairs = || found.iter().zip(&wanted).map(|(a, b)| (a.to_f64(), b.to_f64())).enumerate();
        let Some((at, (a, b))) = pairs().find(off) else {
            return Ok(());
        };
        let count = pairs().filter(off).count();
        // Of those that are off: NaN is the difference of equal infinities too.
        let differences = pairs().filter(off).map(|(_, (a, b))| (a - b).abs());
        let worst =
            differences.fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst });
        Err(Error::shape(format!(
            "{count} of {} elements are off, first at {:?}: expected {b}, found {a}; largest difference {worst:.3e}",
            self.count(),
            index_of(at, self.dims()),
        )))
    }
}

/// The index, one number an axis, of the element `at` in row-major order.
pub(crate) fn index_of(mut at: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (i, &n) in index.iter_mut().zip(dims).rev() {
        (*i, at) = (at % n, at / n);
    }
    index
}

// As functions that know no shape, so that their loops are compiled once for all shapes.

fn eq<E: Element>(a: E, b: E) -> bool {
    a == b
}

fn lt<E: Element>(a: E, b: E) -> bool {
    a < b
}

fn le<E: Element>(a: E, b: E) -> bool {
    a <= b
}

fn gt<E: Element>(a: E, b: E) -> bool {
    a > b
}

fn ge<E: Element>(a: E, b: E) -> bool {
    a >= b
}
