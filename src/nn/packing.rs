//! Weights in the order that the matrix product reads them, kept beside the layer.

use crate::element::Float;
use crate::kernel::gemm::{PackedB, pack_b};
use crate::kernel::index::concat;
use crate::kernel::layout::Layout;
use crate::tensor::AnyTensor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The packed form of one or more weights side by side, made at first use and again when a weight
/// has changed.
///
/// A weight is recognised by its storage: as long as that is the same one, so are the elements. The weak
/// reference keeps the address from being used again, and what writes to a tensor from doing so in place.
#[derive(Debug)]
pub(crate) struct Packing<E>(Mutex<Option<Slot<E>>>);

#[derive(Debug)]
struct Slot<E> {
    of: Vec<(Weak<Vec<E>>, Layout)>,
    packed: Arc<PackedB<E>>,
}

impl<E> Default for Packing<E> {
    fn default() -> Self {
        Packing(Mutex::new(None))
    }
}

impl<E: Float> Packing<E> {
    /// `weights`, each over (in, out) with the same in, packed side by side.
    pub(crate) fn of(&self, weights: &[&AnyTensor<E>]) -> Arc<PackedB<E>> {
        if let Some(slot) = self.lock().as_ref().filter(|slot| slot.holds(weights)) {
            return slot.packed.clone();
        }
        // Not under the lock: packing runs on the thread pool, and while a thread waits for its part
        // there, the pool may give it another call of the same layer.
        let packed = Arc::new(match weights {
            [one] => pack_b(one.view()),
            _ => {
                let views: Vec<_> = weights.iter().map(|weight| weight.view()).collect();
                let columns = weights.iter().map(|weight| weight.dims()[1]).sum();
                let data = concat(&views, 1);
                pack_b(AnyTensor::from_packed(&[weights[0].dims()[0], columns], data).view())
            }
        });
        let of = weights.iter().map(|w| (Arc::downgrade(w.storage()), *w.layout())).collect();
        *self.lock() = Some(Slot { of, packed: packed.clone() });
        packed
    }

    fn lock(&self) -> MutexGuard<'_, Option<Slot<E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Float> Slot<E> {
    fn holds(&self, weights: &[&AnyTensor<E>]) -> bool {
        self.of.len() == weights.len()
            && self.of.iter().zip(weights).all(|((storage, layout), weight)| {
                std::ptr::eq(storage.as_ptr(), Arc::as_ptr(weight.storage()))
                    && layout == weight.layout()
            })
    }
}
