//! Elements as the numbers that kernels compute with, where several steps need them before anything is
//! rounded: as they are, where that takes no conversion, else copied.

use super::elementwise::map;
use super::layout::{Layout, View};
use super::scratch::Spare;
use super::simd::elements::{narrow, widen};
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::Float;
use std::any::Any;
use std::borrow::Cow;

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

/// The elements of a view, wide.
pub(super) fn wide<E: Float>(view: View<'_, E>) -> Wide<'_, E::Wide> {
    match E::as_wide(view.data) {
        Some(data) => Wide { data: Cow::Borrowed(data), layout: view.layout },
        None => {
            Wide { data: Cow::Owned(map(view, E::wide)), layout: Layout::packed(&view.layout.dims) }
        }
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
            map(View { data: &numbers[..], layout }, E::narrow)
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
    E::Wide::vectorized(isa, Widen { from: &*elements, to: &mut wide });
    f(&mut wide);
    E::Wide::vectorized(isa, Narrow { from: &wide, to: elements });
}

struct Widen<'a, E: Float> {
    from: &'a [E],
    to: &'a mut [E::Wide],
}

impl<E: Float> Kernel<E::Wide> for Widen<'_, E> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        // SAFETY: the instruction set is the caller's.
        unsafe { widen::<E, V>(self.from, self.to) }
    }
}

struct Narrow<'a, E: Float> {
    from: &'a [E::Wide],
    to: &'a mut [E],
}

impl<E: Float> Kernel<E::Wide> for Narrow<'_, E> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        // SAFETY: the instruction set is the caller's.
        unsafe { narrow::<E, V>(self.from, self.to) }
    }
}
