//! What queries and keys become before they meet, so that their products are never negative.

use crate::element::Real;
use crate::kernel::elementwise::{map, packed, zip};
use crate::kernel::exp::exp;
use crate::kernel::layout::{Layout, View};
use crate::kernel::math::relu;
use crate::kernel::parallel::for_each_chunk;
use crate::kernel::pointwise::{self, Backward, Pointwise};
use crate::kernel::simd::Vector;

/// φ: how [`LinearAttention`](crate::LinearAttention) weighs a key, φ(q) · φ(k).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureMap {
    /// φ(x) = elu(x) + 1: x + 1 above 0, eˣ below. Katharopoulos et al., 2020, equation 7.
    EluPlusOne,
    /// φ(x) = max(x, 0). A query and a key without a common positive entry do not see each other.
    Relu,
    /// φ(x) = (1, x / ‖x‖₂), so that a key weighs 1 + cos(q, k): the first two terms of the Taylor
    /// series of the exponential. A vector of zeros has the direction of none and weighs 1. Li et
    /// al., 2020.
    Normalized,
}

impl FeatureMap {
    /// The number of features of a vector of `dim` elements.
    pub(super) fn width(self, dim: usize) -> usize {
        dim + usize::from(self == FeatureMap::Normalized)
    }
}

/// The features of each row of the last axis, in row-major order.
pub(super) fn features<R: Real>(x: View<R>, by: FeatureMap) -> Vec<R> {
    match by {
        FeatureMap::EluPlusOne => pointwise::map(x, EluPlusOne),
        FeatureMap::Relu => map(x, |x| relu(x)),
        FeatureMap::Normalized => normalized(x),
    }
}

/// The gradient of rows, row-major, given that of their features. Where that is 0, so is this, whatever the
/// row holds.
pub(super) fn features_backward<R: Real>(x: View<R>, g: &[R], by: FeatureMap) -> Vec<R> {
    let like = |data| View { data, layout: Layout::packed(&x.layout.dims) };
    match by {
        FeatureMap::EluPlusOne => pointwise::backward(x, like(g), EluPlusOne),
        FeatureMap::Relu => zip(x, like(g), |x, g| match x <= R::zero() {
            true => R::zero(),
            false => g,
        }),
        FeatureMap::Normalized => normalized_backward(x, g),
    }
}

/// elu(x) + 1.
#[derive(Clone, Copy)]
struct EluPlusOne;

impl<R: Real> Pointwise<R> for EluPlusOne {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V {
        // SAFETY: the caller's. Of 0 and NaN, both give the second: NaN stays NaN in the maximum.
        unsafe {
            let zero = V::splat(R::zero());
            zero.max(x).add(exp(x.min(zero)))
        }
    }
}

impl<R: Real> Backward<R> for EluPlusOne {
    #[inline(always)]
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V, g: V) -> V {
        // SAFETY: the caller's. Of NaN and 0, the minimum gives 0: the slope is 1.
        unsafe { g.mul(exp(x.min(V::splat(R::zero())))) }
    }
}

/// Rows in a piece of work.
const ROWS: usize = 256;

fn normalized<R: Real>(x: View<R>) -> Vec<R> {
    let dims = x.layout.dims;
    let dim = dims[dims.len() - 1];
    let rows: usize = dims[..dims.len() - 1].iter().product();
    let (x, width) = (packed(x), dim + 1);
    let mut out = vec![R::one(); rows * width];
    let work = out.len() * 8;
    for_each_chunk(&mut out, ROWS * width, work, |i, chunk| {
        for (row, out) in chunk.chunks_exact_mut(width).enumerate() {
            let row = i * ROWS + row;
            direction(&x[row * dim..(row + 1) * dim], &mut out[1..]);
        }
    });
    out
}

/// Writes x / ‖x‖₂, for lengths of any size that the type holds; of zeros, zeros. Gives the length in two
/// factors.
fn direction<R: Real>(x: &[R], out: &mut [R]) -> [R; 2] {
    let largest = x.iter().map(|x| x.abs()).fold(R::zero(), R::max);
    if largest == R::zero() {
        // NaN is lost in the maximum.
        out.copy_from_slice(x);
        return [largest; 2];
    }
    // Scaled first, because the square of what is near the ends of the type is not in it.
    let square = |&x: &R| (x / largest) * (x / largest);
    let length = x.iter().map(square).fold(R::zero(), |sum, square| sum + square).sqrt();
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x / largest / length;
    }
    [largest, length]
}

fn normalized_backward<R: Real>(x: View<R>, g: &[R]) -> Vec<R> {
    let dims = x.layout.dims;
    let (x, dim) = (packed(x), dims[dims.len() - 1]);
    let mut out = vec![R::zero(); x.len()];
    let work = out.len() * 16;
    for_each_chunk(&mut out, ROWS * dim, work, |i, chunk| {
        for (row, out) in chunk.chunks_exact_mut(dim).enumerate() {
            let row = i * ROWS + row;
            // The first feature is 1 for every row.
            let g = &g[row * (dim + 1) + 1..(row + 1) * (dim + 1)];
            direction_backward(&x[row * dim..(row + 1) * dim], g, out);
        }
    });
    out
}

/// (g − n · (n · g)) / ‖x‖₂, n the direction of x; of zeros, which have none, zeros.
fn direction_backward<R: Real>(x: &[R], g: &[R], out: &mut [R]) {
    if [g, x].iter().any(|row| row.iter().all(R::is_zero)) {
        return;
    }
    let [largest, length] = direction(x, out);
    let along = g.iter().zip(&*out).fold(R::zero(), |sum, (&g, &n)| sum + g * n);
    for (out, &g) in out.iter_mut().zip(g) {
        *out = (g - *out * along) / largest / length;
    }
}
