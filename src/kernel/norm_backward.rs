//! The gradients of layer norm and RMS norm.
//!
//! With s the factor of a row, n its normalised elements and h = g · weight, those of the row are
//! s · (h − mean(h) − n · mean(h · n)), without mean(h) where the row keeps its mean. The gradients of
//! weight and bias are sums over rows: each piece of work adds up its own rows, and the pieces are added
//! in their order.

use super::elementwise::{pack_part, packed};
use super::layout::View;
use super::norm::{Norm, TOGETHER};
use super::output::{in_its_place, written};
use super::parallel::{for_each_chunk_pair, lines_in_piece};
use super::runs::Runs;
use super::simd::elements::{load, load_first, store, store_first};
use super::simd::{Isa, Kernel, Lanes, Vector};
use super::sums::sums_of;
use crate::element::Float;
use num_traits::Zero;
use std::mem::MaybeUninit;

/// The least rows in one piece of work, so that what all pieces add up is small beside what they read.
const ROWS: usize = 16;
/// Operations for each element, roughly.
const COST: usize = 16;

/// The gradients of x, of the weight and of the bias, given that of the result.
pub(crate) fn norm_backward<E: Float>(x: View<E>, g: View<E>, norm: Norm<E>) -> [Vec<E>; 3] {
    let (count, n) = (x.layout.count(), norm.size);
    assert_eq!(x.layout.dims, g.layout.dims);
    assert!(norm.weight.is_none_or(|weight| weight.len() == n));
    let group = lines_in_piece(n).max(ROWS) * n;
    let (isa, runs) = (Isa::best(), Runs::new([&g.layout]));
    let packed = packed(x);
    let given = g.as_slice();
    let mut sums = vec![E::Wide::zero(); count.div_ceil(group.max(1)) * 2 * n];
    let write = |i: usize, out: &mut [MaybeUninit<E>], sums: &mut [E::Wide]| {
        let x = &packed[i * group..][..out.len()];
        let (g, to) = match given {
            Some(all) => (all[i * group..][..out.len()].as_ptr(), out.as_mut_ptr().cast()),
            None => in_its_place(pack_part(g.data, &runs, i * group, out)),
        };
        let (weight, bias) = sums.split_at_mut(n);
        E::Wide::vectorized(isa, Back { norm, x, g, to, weight, bias });
    };
    let parts = (&mut sums[..], 2 * n);
    // SAFETY: the chunks cover the output and are whole rows, all of which `Back` writes.
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

/// Rows, the gradients given for them, where those of x go (there, or elsewhere without overlap), and what
/// they add to the gradients of weight and bias. Whoever makes one vouches for as many elements at `g` and
/// `to` as `x` has.
struct Back<'a, E: Float> {
    norm: Norm<'a, E>,
    x: &'a [E],
    g: *const E,
    to: *mut E,
    weight: &'a mut [E::Wide],
    bias: &'a mut [E::Wide],
}

/// A row's numbers.
#[derive(Clone, Copy)]
struct Moments<R> {
    mean: R,
    scale: R,
    /// The mean of h (0 where rows keep their mean) and that of h · n.
    of_h: R,
    of_product: R,
}

impl<E: Float> Kernel<E::Wide> for Back<'_, E> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(mut self) {
        let n = self.norm.size;
        assert!(self.x.len().is_multiple_of(n));
        assert!(self.weight.len() == n && self.bias.len() == n);
        let (count, together) = (self.x.len() / n, self.norm.together());
        let whole = n / V::LANES * V::LANES;
        for first in (0..count).step_by(together) {
            let rows = together.min(count - first);
            // SAFETY: the instruction set is the caller's; these rows lie within those of `Back`.
            unsafe {
                let moments = self.moments::<V>(first, rows);
                for at in (0..whole).step_by(V::LANES) {
                    self.finish::<V, true>((first, at), V::LANES, &moments[..rows]);
                }
                if whole < n {
                    self.finish::<V, false>((first, whole), n - whole, &moments[..rows]);
                }
            }
        }
    }
}

impl<E: Float> Back<'_, E> {
    /// The numbers of some rows from the `first` on.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; there are such rows, at most [`TOGETHER`].
    #[inline(always)]
    unsafe fn moments<V: Vector<Scalar = E::Wide>>(
        &self,
        first: usize,
        rows: usize,
    ) -> [Moments<E::Wide>; TOGETHER] {
        let n = self.norm.size;
        #[allow(clippy::cast_precision_loss, reason = "lengths below 2^53 are exact")]
        let share = E::Wide::from_f64(1.0 / n as f64);
        let zero = E::Wide::zero();
        let mut all = [Moments { mean: zero, scale: zero, of_h: zero, of_product: zero }; TOGETHER];
        // SAFETY: the caller's; places are within the row.
        unsafe {
            let both = self.norm.moments::<V>(self.x.as_ptr().add(first * n), rows);
            for (row, (mean, scale)) in both.into_iter().enumerate().take(rows) {
                let start = (first + row) * n;
                let splat = (V::splat(mean), V::splat(scale));
                let products = |[normal, _, h]: [V; 3]| [h, h.mul(normal)];
                let [of_h, of_product] = sums_of(
                    n,
                    |at| products(self.parts::<V, true>(start, at, V::LANES, splat)),
                    |at, count| products(self.parts::<V, false>(start, at, count, splat)),
                );
                let of_h = if self.norm.centered { of_h * share } else { zero };
                all[row] = Moments { mean, scale, of_h, of_product: of_product * share };
            }
        }
        all
    }

    /// n, g and h of `count` elements of the row that starts at `start`, from `at` on; 0 for g and h in the
    /// lanes past them.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`; there are so many elements, where they are `WHOLE` a
    /// vector of them.
    #[inline(always)]
    unsafe fn parts<V: Vector<Scalar = E::Wide>, const WHOLE: bool>(
        &self,
        start: usize,
        at: usize,
        count: usize,
        (mean, scale): (V, V),
    ) -> [V; 3] {
        // SAFETY: the caller's.
        unsafe {
            let x = read::<E, V, WHOLE>(self.x.as_ptr().add(start + at), count);
            let g = read::<E, V, WHOLE>(self.g.add(start + at), count);
            let h = match self.norm.weight {
                Some(weight) => g.mul(read::<E, V, WHOLE>(weight.as_ptr().add(at), count)),
                None => g,
            };
            [x.sub(mean).mul(scale), g, h]
        }
    }

    /// Writes the gradients of x in `count` columns of rows from the `first` on, and adds to those of weight
    /// and bias, row by row.
    ///
    /// # Safety
    ///
    /// As [`parts`](Self::parts), for each of the rows.
    #[inline(always)]
    unsafe fn finish<V: Vector<Scalar = E::Wide>, const WHOLE: bool>(
        &mut self,
        (first, at): (usize, usize),
        count: usize,
        rows: &[Moments<E::Wide>],
    ) {
        let n = self.norm.size;
        // SAFETY: the caller's; there are as many sums as columns.
        unsafe {
            let of = [self.weight.as_mut_ptr().add(at), self.bias.as_mut_ptr().add(at)];
            let mut sums = of.map(|from| read::<E::Wide, V, WHOLE>(from, count));
            for (row, moments) in rows.iter().enumerate() {
                let start = (first + row) * n;
                let (mean, scale) = (V::splat(moments.mean), V::splat(moments.scale));
                let [normal, g, h] = self.parts::<V, WHOLE>(start, at, count, (mean, scale));
                let [of_h, of_product] = [moments.of_h, moments.of_product].map(|x| V::splat(x));
                let result = h.sub(of_h).sub(normal.mul(of_product)).mul(scale);
                write::<E, V, WHOLE>(result, count, self.to.add(start + at));
                sums = [sums[0].add(g.mul(normal)), sums[1].add(g)];
            }
            for (sum, to) in sums.into_iter().zip(of) {
                write::<E::Wide, V, WHOLE>(sum, count, to);
            }
        }
    }
}

/// `count` elements, where they are `WHOLE` a vector of them; 0 in the lanes past them.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the elements can be read.
#[inline(always)]
unsafe fn read<E: Float, V: Vector<Scalar = E::Wide>, const WHOLE: bool>(
    from: *const E,
    count: usize,
) -> V {
    // SAFETY: the caller's.
    unsafe { if WHOLE { load(from) } else { load_first(from, count, E::Wide::zero()) } }
}

/// As [`read`], the other way.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the elements can be written.
#[inline(always)]
unsafe fn write<E: Float, V: Vector<Scalar = E::Wide>, const WHOLE: bool>(
    vector: V,
    count: usize,
    to: *mut E,
) {
    // SAFETY: the caller's.
    unsafe { if WHOLE { store(vector, to) } else { store_first(vector, count, to) } }
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
