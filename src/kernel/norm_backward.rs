//! The gradients of layer norm and RMS norm.
//!
//! With s the factor of a row, n its normalised elements and h = g · weight, those of the row are
//! s · (h − mean(h) − n · mean(h · n)), without mean(h) where the row keeps its mean. The gradients of
//! weight and bias are sums over rows: each piece of work adds up its own rows, and the pieces are added
//! in their order.

use super::elementwise::{pack, pack_part};
use super::layout::View;
use super::norm::Norm;
use super::output::written;
use super::parallel::for_each_chunk_pair;
use super::runs::Runs;
use super::simd::elements::{load_first, store_first, sum_of_lanes};
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::Float;
use num_traits::Zero;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Elements in one piece of work, unless [`ROWS`] rows are longer.
const GROUP: usize = 1 << 14;
/// The least rows of one, so that what all pieces add up is small beside what they read.
const ROWS: usize = 16;
/// Operations for each element, roughly.
const COST: usize = 16;

/// The gradients of x, of the weight and of the bias, given that of the result.
pub(crate) fn norm_backward<E: Float>(x: View<E>, g: View<E>, norm: Norm<E>) -> [Vec<E>; 3] {
    let (count, n) = (x.layout.count(), norm.size);
    assert_eq!(x.layout.dims, g.layout.dims);
    assert!(norm.weight.is_none_or(|weight| weight.len() == n));
    let group = (GROUP / n.max(1)).max(ROWS) * n;
    let (isa, runs) = (Isa::best(), Runs::new([&g.layout]));
    let packed = x.as_slice().map_or_else(|| Cow::Owned(pack(x)), Cow::Borrowed);
    let mut sums = vec![E::Wide::zero(); count.div_ceil(group.max(1)) * 2 * n];
    let write = |i: usize, out: &mut [MaybeUninit<E>], sums: &mut [E::Wide]| {
        let rows = pack_part(g.data, &runs, i * group, out);
        let x = &packed[i * group..][..rows.len()];
        let (weight, bias) = sums.split_at_mut(n);
        E::Wide::vectorized(isa, Back { norm, x, rows, weight, bias });
    };
    let parts = (&mut sums[..], 2 * n);
    // SAFETY: the chunks cover the output, and `pack_part` writes all of each.
    let rows = unsafe {
        written(count, |out| for_each_chunk_pair((out, group), parts, count * COST, write))
    };
    let mut totals = vec![E::Wide::zero(); 2 * n];
    for part in sums.chunks_exact(2 * n.max(1)) {
        totals.iter_mut().zip(part).for_each(|(total, &sum)| *total += sum);
    }
    let narrow = |sums: &[E::Wide]| sums.iter().map(|&sum| E::narrow(sum)).collect();
    [rows, narrow(&totals[..n]), narrow(&totals[n..])]
}

/// Rows and their gradients, in whose place those of x are put; what they add to the gradients of weight
/// and bias.
struct Back<'a, E: Float> {
    norm: Norm<'a, E>,
    x: &'a [E],
    rows: &'a mut [E],
    weight: &'a mut [E::Wide],
    bias: &'a mut [E::Wide],
}

impl<E: Float> Kernel<E::Wide> for Back<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let n = self.norm.size;
        assert!(self.x.len() == self.rows.len() && self.x.len().is_multiple_of(n));
        assert!(self.weight.len() == n && self.bias.len() == n);
        for row in 0..self.x.len() / n {
            let (x, g) = (&self.x[row * n..][..n], &mut self.rows[row * n..][..n]);
            let row = Row { norm: self.norm, x: x.as_ptr(), g: g.as_mut_ptr() };
            // SAFETY: the instruction set is the caller's; all four slices have `n` elements.
            unsafe { row.run::<V>(self.weight.as_mut_ptr(), self.bias.as_mut_ptr()) };
        }
    }
}

struct Row<'a, E> {
    norm: Norm<'a, E>,
    x: *const E,
    g: *mut E,
}

/// A row's numbers, in all lanes.
#[derive(Clone, Copy)]
struct Moments<V> {
    mean: V,
    scale: V,
    /// The mean of h (0 where rows keep their mean) and that of h · n.
    of_h: V,
    of_product: V,
}

impl<E: Float> Row<'_, E> {
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; x, g, `weight` and `bias` are the first of
    /// `norm.size` elements.
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(&self, weight: *mut E::Wide, bias: *mut E::Wide) {
        let n = self.norm.size;
        let whole = n / V::LANES * V::LANES;
        let zero = E::Wide::zero();
        #[allow(clippy::cast_precision_loss, reason = "lengths below 2^53 are exact")]
        let share = E::Wide::from_f64(1.0 / n as f64);
        // SAFETY: the caller's; `count` elements from `at` on are within the row.
        unsafe {
            let (mean, scale) = self.norm.moments::<V>(self.x);
            let (mean, scale, none) = (V::splat(mean), V::splat(scale), V::splat(zero));
            let mut moments = Moments { mean, scale, of_h: none, of_product: none };
            let mut sums = [none; 2];
            for at in (0..whole).step_by(V::LANES) {
                self.add_products(at, V::LANES, moments, &mut sums);
            }
            if whole < n {
                self.add_products(whole, n - whole, moments, &mut sums);
            }
            let [of_h, of_product] = [sum_of_lanes(sums[0]), sum_of_lanes(sums[1])];
            if self.norm.centered {
                moments.of_h = V::splat(of_h * share);
            }
            moments.of_product = V::splat(of_product * share);
            for at in (0..whole).step_by(V::LANES) {
                self.finish(at, V::LANES, moments, [weight, bias]);
            }
            if whole < n {
                self.finish(whole, n - whole, moments, [weight, bias]);
            }
        }
    }

    /// n, g and h of `count` elements from `at` on; 0 for g and h in the lanes past them.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; there are so many elements, and no vector has fewer.
    #[inline(always)]
    unsafe fn parts<V: Vector<Scalar = E::Wide>>(
        &self,
        at: usize,
        count: usize,
        moments: Moments<V>,
    ) -> [V; 3] {
        let zero = E::Wide::zero();
        // SAFETY: the caller's.
        unsafe {
            let x = load_first::<E, V>(self.x.add(at), count, zero);
            let g = load_first::<E, V>(self.g.add(at), count, zero);
            let h = match self.norm.weight {
                Some(weight) => g.mul(load_first::<E, V>(weight.as_ptr().add(at), count, zero)),
                None => g,
            };
            [x.sub(moments.mean).mul(moments.scale), g, h]
        }
    }

    /// Adds h and h · n to the sums.
    ///
    /// # Safety
    ///
    /// As [`parts`](Self::parts).
    #[inline(always)]
    unsafe fn add_products<V: Vector<Scalar = E::Wide>>(
        &self,
        at: usize,
        count: usize,
        moments: Moments<V>,
        sums: &mut [V; 2],
    ) {
        // SAFETY: the caller's.
        unsafe {
            let [normal, _, h] = self.parts(at, count, moments);
            *sums = [sums[0].add(h), sums[1].add(h.mul(normal))];
        }
    }

    /// Writes the gradient of x in the place of g, and adds to those of weight and bias.
    ///
    /// # Safety
    ///
    /// As [`parts`](Self::parts); there are as many sums.
    #[inline(always)]
    unsafe fn finish<V: Vector<Scalar = E::Wide>>(
        &self,
        at: usize,
        count: usize,
        moments: Moments<V>,
        [weight, bias]: [*mut E::Wide; 2],
    ) {
        // SAFETY: the caller's.
        unsafe {
            let [normal, g, h] = self.parts(at, count, moments);
            let result = h.sub(moments.of_h).sub(normal.mul(moments.of_product));
            store_first(result.mul(moments.scale), count, self.g.add(at));
            for (to, term) in [(weight, g.mul(normal)), (bias, g)] {
                let sum = load_first::<E::Wide, V>(to.add(at), count, E::Wide::zero());
                store_first(sum.add(term), count, to.add(at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Rng, bits, in_pools};

    /// The twin: the definition, in f64.
    fn slow(x: &[f64], g: &[f64], norm: Norm<f64>) -> [Vec<f64>; 3] {
        let n = norm.size as f64;
        let mut result = [Vec::new(), vec![0.0; norm.size], vec![0.0; norm.size]];
        for (x, g) in x.chunks(norm.size).zip(g.chunks(norm.size)) {
            let mean = if norm.centered { x.iter().sum::<f64>() / n } else { 0.0 };
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let scale = 1.0 / (variance + norm.epsilon).sqrt();
            let h: Vec<_> =
                (0..norm.size).map(|i| g[i] * norm.weight.map_or(1.0, |w| w[i])).collect();
            let normal: Vec<_> = x.iter().map(|x| (x - mean) * scale).collect();
            let h_mean = if norm.centered { h.iter().sum::<f64>() / n } else { 0.0 };
            let product = h.iter().zip(&normal).map(|(h, x)| h * x).sum::<f64>() / n;
            for i in 0..norm.size {
                result[0].push(scale * (h[i] - h_mean - normal[i] * product));
                result[1][i] += g[i] * normal[i];
                result[2][i] += g[i];
            }
        }
        result
    }

    #[test]
    fn rows_of_every_length_match_the_definition() {
        let mut rng = Rng::new(74);
        for size in (1..40).chain([100, 1000]) {
            for (rows, centered) in [(1, true), (3, false), (40, true), (40, false)] {
                let (x, g) = (rng.block::<f64>(&[rows, size]), rng.block::<f64>(&[rows, size]));
                let weight = rng.values::<f64>(size);
                for weight in [None, Some(&weight[..])] {
                    let norm = Norm { size, centered, epsilon: 1e-5, weight, bias: None };
                    let result = norm_backward(x.view(), g.view(), norm);
                    let expected = slow(&x.data, &g.data, norm);
                    for (a, b) in result.iter().flatten().zip(expected.iter().flatten()) {
                        assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{size}: {a} {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn strides_and_threads_change_no_bit() {
        let mut rng = Rng::new(75);
        let (x, g) = (rng.block::<f32>(&[500, 3, 40]), rng.block::<f32>(&[500, 3, 40]));
        let weight = rng.values::<f32>(120);
        let norm =
            Norm { size: 120, centered: true, epsilon: 1e-5, weight: Some(&weight), bias: None };
        let all = |x: View<f32>, g: View<f32>| bits(&norm_backward(x, g, norm).concat());
        let expected = in_pools(|| all(x.view(), g.view()));
        for kind in 0..3 {
            let (x, g) = (x.scattered(kind), g.scattered(2 - kind));
            assert_eq!(all(x.view(), g.view()), expected);
        }
    }

    #[test]
    fn no_rows_and_empty_rows_are_fine() {
        let none = Rng::new(76).block::<f32>(&[0, 3]);
        let norm = Norm { size: 3, centered: true, epsilon: 1e-5, weight: None, bias: None };
        let result = norm_backward(none.view(), none.view(), norm);
        assert_eq!(result, [vec![], vec![0.0; 3], vec![0.0; 3]]);
        let empty = Rng::new(77).block::<f32>(&[3, 0]);
        let result = norm_backward(empty.view(), empty.view(), Norm { size: 0, ..norm });
        assert_eq!(result, [const { Vec::<f32>::new() }; 3]);
    }
}
