//! Functions of one element that take enough arithmetic to want vectors.
//!
//! A [`Pointwise`] function sees whole vectors and treats all lanes alike, so an element's value does
//! not depend on its neighbours or on the lane that it is in.

use super::elementwise::{pack_part, packed};
use super::layout::View;
use super::output::{in_its_place, written_in_chunks};
use super::parallel::{PIECE, for_each_chunk};
use super::runs::Runs;
use super::simd::elements::{load, load_first, store, store_first};
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::Float;
use num_traits::Zero;
use std::mem::MaybeUninit;

/// A function of numbers of type `R`.
pub(crate) trait Pointwise<R>: Copy + Sync {
    /// The function of each lane. Must be `#[inline(always)]`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V) -> V;
}

/// Operations for each element, roughly.
const COST: usize = 8;

/// `f` of every element, in row-major order.
pub(crate) fn map<E: Float>(view: View<E>, f: impl Pointwise<E::Wide>) -> Vec<E> {
    let isa = Isa::best();
    let (count, packed) = (view.layout.count(), view.as_slice());
    let runs = Runs::new([&view.layout]);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        let n = out.len();
        let (from, to) = match packed {
            Some(all) => (all[i * PIECE..][..n].as_ptr(), out.as_mut_ptr().cast()),
            None => in_its_place(pack_part(view.data, &runs, i * PIECE, out)),
        };
        E::Wide::vectorized(isa, Apply { from, to, n, f });
    };
    // SAFETY: `Apply` writes `n` elements.
    unsafe { written_in_chunks(count, PIECE, count * COST, write) }
}

/// Puts `f` of every element in its place.
pub(crate) fn map_in_place<E: Float>(elements: &mut [E], f: impl Pointwise<E::Wide>) {
    let isa = Isa::best();
    let work = elements.len() * COST;
    for_each_chunk(elements, PIECE, work, |_, chunk| apply_on(isa, chunk, f));
}

/// As [`map_in_place`], on the calling thread.
pub(crate) fn apply<E: Float>(elements: &mut [E], f: impl Pointwise<E::Wide>) {
    apply_on(Isa::best(), elements, f);
}

/// A function of pairs of numbers of type `R`: the gradient of a pointwise function's argument, given
/// the argument and the gradient of its value.
pub(crate) trait Backward<R>: Copy + Sync {
    /// The function of each lane. Must be `#[inline(always)]`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set of `V`.
    unsafe fn of<V: Vector<Scalar = R>>(self, x: V, g: V) -> V;
}

/// `f` of every element and the gradient in its place, in row-major order. The views have equal sizes.
pub(crate) fn backward<E: Float>(x: View<E>, g: View<E>, f: impl Backward<E::Wide>) -> Vec<E> {
    let isa = Isa::best();
    let count = x.layout.count();
    assert_eq!(x.layout.dims, g.layout.dims);
    let packed = packed(x);
    let runs = Runs::new([&g.layout]);
    let write = |i, out: &mut [MaybeUninit<E>]| {
        let gradient = pack_part(g.data, &runs, i * PIECE, out);
        let x = &packed[i * PIECE..][..gradient.len()];
        E::Wide::vectorized(isa, Back { x, gradient, f });
    };
    // SAFETY: `pack_part` writes all of a chunk.
    unsafe { written_in_chunks(count, PIECE, count * COST, write) }
}

/// As [`backward`], in the place of the gradients, on the calling thread. The slices are equally long.
pub(crate) fn apply_backward<E: Float>(x: &[E], gradient: &mut [E], f: impl Backward<E::Wide>) {
    E::Wide::vectorized(Isa::best(), Back { x, gradient, f });
}

/// `f` of elements and their gradients, in the place of those.
struct Back<'a, E, F> {
    x: &'a [E],
    gradient: &'a mut [E],
    f: F,
}

impl<E: Float, F: Backward<E::Wide>> Kernel<E::Wide> for Back<'_, E, F> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let n = self.x.len();
        assert_eq!(self.gradient.len(), n);
        let (x, g) = (self.x.as_ptr(), self.gradient.as_mut_ptr());
        let whole = n / V::LANES * V::LANES;
        // SAFETY: the instruction set is the caller's; both slices have `n` elements.
        unsafe {
            for at in (0..whole).step_by(V::LANES) {
                let result = self.f.of(load::<E, V>(x.add(at)), load::<E, V>(g.add(at)));
                store(result, g.add(at));
            }
            if whole < n {
                let rest = |from: *const E| {
                    load_first::<E, V>(from.add(whole), n - whole, E::Wide::zero())
                };
                store_first(self.f.of(rest(x), rest(g)), n - whole, g.add(whole));
            }
        }
    }
}

fn apply_on<E: Float>(isa: Isa, elements: &mut [E], f: impl Pointwise<E::Wide>) {
    let (n, (from, to)) = (elements.len(), in_its_place(elements));
    E::Wide::vectorized(isa, Apply { from, to, n, f });
}

/// `f` of the `n` elements at `from`, written to `to`: the same place, or one that does not overlap.
/// Whoever makes one vouches for both.
struct Apply<E, F> {
    from: *const E,
    to: *mut E,
    n: usize,
    f: F,
}

impl<E: Float, F: Pointwise<E::Wide>> Kernel<E::Wide> for Apply<E, F> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        let Apply { from, to, n, f } = self;
        let whole = n / V::LANES * V::LANES;
        // SAFETY: the instruction set is the caller's, the elements are those of `Apply`.
        unsafe {
            for at in (0..whole).step_by(V::LANES) {
                store(f.of(load::<E, V>(from.add(at))), to.add(at));
            }
            if whole < n {
                let rest = load_first::<E, V>(from.add(whole), n - whole, E::Wide::zero());
                store_first(f.of(rest), n - whole, to.add(whole));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::math::{Exponential, Gelu, GeluTanh, Sigmoid, Silu, Tanh};
    use crate::kernel::testing::{Rng, bits, in_pools};

    fn same_for_any_layout<E: Float>(f: impl Pointwise<E::Wide>) {
        let mut rng = Rng::new(20);
        for dims in [&[][..], &[0], &[1], &[7, 3], &[4, 1, 9], &[61, 3, 97]] {
            let block = rng.block::<E>(dims);
            let expected = in_pools(|| bits(&map(block.view(), f)));
            for kind in 0..3 {
                assert_eq!(bits(&map(block.scattered(kind).view(), f)), expected, "{dims:?}");
            }
            let in_place = in_pools(|| {
                let mut elements = block.data.clone();
                map_in_place(&mut elements, f);
                bits(&elements)
            });
            assert_eq!(in_place, expected, "{dims:?}");
        }
    }

    #[test]
    fn strides_lanes_threads_and_place_change_no_bit() {
        same_for_any_layout::<f32>(Exponential);
        same_for_any_layout::<f32>(Tanh);
        same_for_any_layout::<f32>(Sigmoid);
        same_for_any_layout::<f32>(Silu);
        same_for_any_layout::<f32>(Gelu);
        same_for_any_layout::<f32>(GeluTanh);
        same_for_any_layout::<f64>(Gelu);
        same_for_any_layout::<f64>(Silu);
    }

    #[test]
    fn an_elements_value_does_not_depend_on_the_length() {
        let x = Rng::new(21).values::<f32>(70);
        let all = map_all(&x);
        for n in 0..70 {
            assert_eq!(map_all(&x[..n]), all[..n]);
        }
    }

    fn map_all(x: &[f32]) -> Vec<f32> {
        let mut y = x.to_vec();
        map_in_place(&mut y, Gelu);
        y
    }
}
