//! Elements as the numbers that kernels compute with, where several steps need them before anything is
//! rounded: as they are, where that takes no conversion, else copied.

use super::elementwise::{map, map_in_place, pack_part, zip, zip_in_place};
use super::layout::{Layout, View};
use super::output::{place, written_in_chunks};
use super::parallel::{PIECE, for_each_chunk};
use super::runs::Runs;
use super::scratch::Spare;
use super::simd::elements::{narrow_to, widen_to};
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::Float;
use std::any::Any;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// A view of wide numbers, or the copy that it is of, in row-major order.
pub(super) struct Wide<'a, R: Clone> {
    data: Cow<'a, [R]>,
    layout: Layout,
}

impl<R: Clone> Wide<'_, R> {
    pub(super) fn view(&self) -> View<'_, R> {
        View { data: &self.data, layout: self.layout }
    }
}

/// Whether elements are what they are computed with.
fn is_wide<E: Float>() -> bool {
    E::as_wide(&[]).is_some()
}

/// Elements that go through wide numbers at a time: both stay in the nearest cache.
const BLOCK: usize = 1 << 11;

/// The elements of a view, wide.
pub(super) fn wide<E: Float>(view: View<'_, E>) -> Wide<'_, E::Wide> {
    match E::as_wide(view.data) {
        Some(data) => Wide { data: Cow::Borrowed(data), layout: view.layout },
        None => Wide { data: Cow::Owned(cast(view)), layout: Layout::packed(&view.layout.dims) },
    }
}

/// The numbers, each rounded.
pub(super) fn narrowed<E: Float>(numbers: Vec<E::Wide>) -> Vec<E> {
    let numbers: Box<dyn Any> = Box::new(numbers);
    match numbers.downcast::<Vec<E>>() {
        Ok(same) => *same,
        Err(numbers) => {
            let numbers = numbers.downcast::<Vec<E::Wide>>().unwrap_or_default();
            let layout = Layout::packed(&[numbers.len()]);
            cast(View { data: &numbers[..], layout })
        }
    }
}

/// The elements of a view in another type, in row-major order, each rounded once.
pub(crate) fn cast<E: Float, F: Float>(view: View<E>) -> Vec<F> {
    let twice_rounded = size_of::<E::Wide>() > size_of::<F::Wide>();
    if twice_rounded || is_wide::<E>() && is_wide::<F>() {
        return map(view, |x| F::from_f64(x.to_f64()));
    }
    by_blocks(view, |_, wide, to| {
        let mut numbers = Spare::take(wide.len());
        for (to, x) in numbers.iter_mut().zip(&*wide) {
            *to = F::Wide::from_f64(x.to_f64());
        }
        F::Wide::vectorized(Isa::best(), Narrow { from: &numbers, to });
    })
}

/// `f` of every element, made of wide numbers and rounded once.
pub(crate) fn map_wide<E: Float>(view: View<E>, f: impl Fn(E::Wide) -> E::Wide + Sync) -> Vec<E> {
    if is_wide::<E>() {
        return map(view, |x| E::narrow(f(x.wide())));
    }
    by_blocks(view, |_, wide, to| {
        wide.iter_mut().for_each(|x| *x = f(*x));
        E::Wide::vectorized(Isa::best(), Narrow { from: wide, to });
    })
}

/// As [`map_wide`], in the place of the elements.
pub(crate) fn map_wide_in_place<E: Float>(
    elements: &mut [E],
    f: impl Fn(E::Wide) -> E::Wide + Sync,
) {
    if is_wide::<E>() {
        return map_in_place(elements, |x| E::narrow(f(x.wide())));
    }
    let work = elements.len();
    for_each_chunk(elements, PIECE, work, |_, chunk| {
        for block in chunk.chunks_mut(BLOCK) {
            through_wide(block, |wide| wide.iter_mut().for_each(|x| *x = f(*x)));
        }
    });
}

/// `f` of every pair of elements, as [`map_wide`]. The views have equal sizes.
pub(crate) fn zip_wide<E: Float>(
    a: View<E>,
    b: View<E>,
    f: impl Fn(E::Wide, E::Wide) -> E::Wide + Sync,
) -> Vec<E> {
    if is_wide::<E>() {
        return zip(a, b, |a, b| E::narrow(f(a.wide(), b.wide())));
    }
    let runs = Runs::new([&b.layout]);
    by_blocks(a, |first, wide, to| {
        let mut others = Spare::take(wide.len());
        load_part(b, &runs, first, &mut others);
        wide.iter_mut().zip(&*others).for_each(|(a, &b)| *a = f(*a, b));
        E::Wide::vectorized(Isa::best(), Narrow { from: wide, to });
    })
}

/// As [`zip_wide`], in the place of the first of each pair; those are in row-major order.
pub(crate) fn zip_wide_in_place<E: Float>(
    elements: &mut [E],
    partners: View<E>,
    f: impl Fn(E::Wide, E::Wide) -> E::Wide + Sync,
) {
    if is_wide::<E>() {
        return zip_in_place(elements, partners, |a, b| E::narrow(f(a.wide(), b.wide())));
    }
    let runs = Runs::new([&partners.layout]);
    let work = elements.len();
    for_each_chunk(elements, PIECE, work, |i, chunk| {
        let mut others = Spare::take(BLOCK);
        for (j, block) in chunk.chunks_mut(BLOCK).enumerate() {
            let others = &mut others[..block.len()];
            load_part(partners, &runs, i * PIECE + j * BLOCK, others);
            through_wide(block, |wide| {
                wide.iter_mut().zip(&*others).for_each(|(a, &b)| *a = f(*a, b));
            });
        }
    });
}

/// What `write` makes of a view's elements in row-major order, block by block: it is given the position of
/// the first, wide copies, and the place for as many elements, all of which it writes.
fn by_blocks<E: Float, F: Float>(
    view: View<E>,
    write: impl Fn(usize, &mut [E::Wide], *mut F) + Sync,
) -> Vec<F> {
    let runs = Runs::new([&view.layout]);
    let count = view.layout.count();
    let chunk = |i, out: &mut [MaybeUninit<F>]| {
        let mut wide = Spare::take(BLOCK);
        for (j, out) in out.chunks_mut(BLOCK).enumerate() {
            let (first, wide) = (i * PIECE + j * BLOCK, &mut wide[..out.len()]);
            load_part(view, &runs, first, wide);
            write(first, wide, out.as_mut_ptr().cast());
        }
    };
    // SAFETY: `write` writes all elements of each block.
    unsafe { written_in_chunks(count, PIECE, count, chunk) }
}

/// Makes the elements from the row-major position `first` on wide, as many as `wide` holds.
fn load_part<E: Float>(view: View<E>, runs: &Runs<1>, first: usize, wide: &mut [E::Wide]) {
    let to = wide.as_mut_ptr();
    match view.as_slice() {
        Some(all) => {
            let from = &all[first..][..wide.len()];
            E::Wide::vectorized(Isa::best(), Widen { from, to });
        }
        None => {
            let mut copy = Spare::take(wide.len());
            // SAFETY: `pack_part` writes elements.
            let from = &*pack_part(view.data, runs, first, unsafe { place(&mut copy) });
            E::Wide::vectorized(Isa::best(), Widen { from, to });
        }
    }
}

/// Lets `f` change elements as wide numbers, and rounds them once.
pub(super) fn through_wide<E: Float>(elements: &mut [E], f: impl FnOnce(&mut [E::Wide])) {
    if let Some(wide) = E::as_wide_mut(elements) {
        return f(wide);
    }
    let isa = Isa::best();
    let mut wide = Spare::take(elements.len());
    E::Wide::vectorized(isa, Widen { from: &*elements, to: wide.as_mut_ptr() });
    f(&mut wide);
    E::Wide::vectorized(isa, Narrow { from: &wide, to: elements.as_mut_ptr() });
}

/// Elements made wide, at a place for as many numbers. Whoever makes one vouches for that.
struct Widen<'a, E: Float> {
    from: &'a [E],
    to: *mut E::Wide,
}

impl<E: Float> Kernel<E::Wide> for Widen<'_, E> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        // SAFETY: the instruction set is the caller's, the place that of whoever made this.
        unsafe { widen_to::<E, V>(self.from, self.to) }
    }
}

/// Numbers rounded, at a place for as many elements. Whoever makes one vouches for that.
struct Narrow<'a, E: Float> {
    from: &'a [E::Wide],
    to: *mut E,
}

impl<E: Float> Kernel<E::Wide> for Narrow<'_, E> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        // SAFETY: the instruction set is the caller's, the place that of whoever made this.
        unsafe { narrow_to::<E, V>(self.from, self.to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{bf16, f16};
    use crate::kernel::testing::{Rng, bits, in_pools};

    fn check_casts<E: Float, F: Float>() {
        let mut rng = Rng::new(91);
        let mut block = rng.block::<E>(&[3, 5, 1999]);
        let strange = [f64::NAN, f64::INFINITY, -0.0, 1e-7, 65_520.0, 1e300, 1.0 + 1e-4];
        for (x, strange) in block.data.iter_mut().step_by(100).zip(strange.iter().cycle()) {
            *x = E::from_f64(*strange);
        }
        let expected: Vec<F> = block.data.iter().map(|x| F::from_f64(x.to_f64())).collect();
        for kind in 0..3 {
            let found = in_pools(|| bits(&cast::<E, F>(block.scattered(kind).view())));
            assert!(found == bits(&expected), "{} to {}, strides {kind}", E::NAME, F::NAME);
        }
    }

    #[test]
    fn a_cast_is_rounded_once() {
        check_casts::<f32, f16>();
        check_casts::<f32, bf16>();
        check_casts::<f64, f16>();
        check_casts::<f64, bf16>();
        check_casts::<f64, f32>();
        check_casts::<f16, f32>();
        check_casts::<bf16, f64>();
        check_casts::<f16, bf16>();
        check_casts::<bf16, f16>();
        check_casts::<f32, f64>();
    }
}
