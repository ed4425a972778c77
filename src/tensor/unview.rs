//! The gradient of a tensor, from that of a view of it.

use super::AnyTensor;
use crate::element::Float;
use crate::kernel::assign::{accumulate, take_each_once};
use crate::kernel::layout::{Dims, Layout};
use std::sync::Arc;

impl<E: Float> AnyTensor<E> {
    /// This gradient of the view `to`, as that of the tensor in layout `from` it is a view of: 0 where
    /// the view does not look, the sum where it looks twice.
    pub(super) fn unviewed(&self, from: &Layout, to: &Layout) -> Self {
        if from.count() == 0 || to.count() == 0 {
            return Self::from_packed(&from.dims, vec![E::default(); from.count()]);
        }
        match (in_memory_order(from), in_memory_order(to)) {
            (Some(from_order), Some(to_order))
                if from.offset == to.offset && from.count() == to.count() =>
            {
                let ordered = self.permuted(&to_order);
                let dims = from.permuted(&from_order).dims;
                ordered.reshaped(&dims).permuted(&inverse(&from_order))
            }
            _ => self.put_back(from, to),
        }
    }

    /// Adds [`unviewed`](Self::unviewed) of a gradient to this one, of the tensor in layout `from`: without
    /// a tensor of all its sizes, where this lies as that does.
    pub(super) fn add_unviewed(&mut self, gradient: &Self, from: &Layout, to: &Layout) {
        let within = |layout: &Layout| Layout { offset: layout.offset - from.offset, ..*layout };
        // What is shared is copied before it is written, in row-major order: only there do places stay.
        let stays = self.layout().is_packed() || Arc::strong_count(self.storage()) == 1;
        let here = *self.layout() == within(from) && from.is_injective();
        if !(here && stays) || from.count() == to.count() || to.count() == 0 {
            let whole = gradient.unviewed(from, to);
            return self.zip_in_place(whole.view(), |a, b| a + b);
        }
        accumulate(gradient.view(), self.owned().0, &within(to));
    }

    fn put_back(&self, from: &Layout, to: &Layout) -> Self {
        let mut places = vec![E::default(); from.extent() - from.offset];
        let within = |layout: &Layout| Layout { offset: layout.offset - from.offset, ..*layout };
        accumulate(self.view(), &mut places, &within(to));
        let from = within(from);
        if from.is_injective() {
            return Self::in_layout(from, places);
        }
        // What this tensor shows several times gets its gradient once: whoever repeated it adds up.
        Self::from_packed(&from.dims, take_each_once(&mut places, &from))
    }
}

/// The axes from the longest stride to the shortest, where the block lies in memory without gaps in
/// that order.
fn in_memory_order(layout: &Layout) -> Option<Dims> {
    let mut order = layout.dims;
    order.iter_mut().enumerate().for_each(|(i, axis)| *axis = i);
    order.sort_by_key(|&axis| match layout.dims[axis] {
        1 => usize::MAX,
        _ => usize::MAX - 1 - layout.strides[axis].min(usize::MAX - 1),
    });
    layout.permuted(&order).is_packed().then_some(order)
}

fn inverse(order: &Dims) -> Dims {
    let mut inverse = *order;
    order.iter().enumerate().for_each(|(i, &axis)| inverse[axis] = i);
    inverse
}
