//! Linear maps in the form that the matrix product reads, kept beside the layer.

use crate::element::Float;
use crate::kernel::gemm::pack_b;
use crate::kernel::index::concat;
use crate::kernel::layout::Layout;
use crate::kernel::linear::Projection;
use crate::tensor::AnyTensor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The packed form of one linear map or of several side by side, made at first use and again when a
/// weight or a bias has changed.
///
/// A tensor is recognised by its storage: as long as that is the same one, so are the elements. A weak
/// reference keeps the address from being used again, and the elements from being changed in place.
#[derive(Debug)]
pub(crate) struct Packing<E>(Mutex<Option<Slot<E>>>);

#[derive(Debug)]
struct Slot<E> {
    of: Vec<(Source<E>, Option<Source<E>>)>,
    packed: Arc<Projection<E>>,
}

/// A tensor that was packed.
#[derive(Debug)]
struct Source<E>(Weak<Vec<E>>, Layout);

/// A weight over (in, out), and a bias over (out) where there is one.
pub(crate) type Map<'a, E> = (&'a AnyTensor<E>, Option<&'a AnyTensor<E>>);

impl<E> Default for Packing<E> {
    fn default() -> Self {
        Packing(Mutex::new(None))
    }
}

impl<E: Float> Packing<E> {
    /// `maps`, each with the same in, packed side by side.
    pub(crate) fn of(&self, maps: &[Map<E>]) -> Arc<Projection<E>> {
        if let Some(slot) = self.lock().as_ref().filter(|slot| slot.holds(maps)) {
            return slot.packed.clone();
        }
        // Not under the lock: packing runs on the thread pool, and while a thread waits for its part
        // there, the pool may give it another call of the same layer.
        let packed = Arc::new(pack(maps));
        let of = maps.iter().map(|(w, b)| (Source::of(w), b.map(Source::of))).collect();
        *self.lock() = Some(Slot { of, packed: packed.clone() });
        packed
    }

    fn lock(&self) -> MutexGuard<'_, Option<Slot<E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pack<E: Float>(maps: &[Map<E>]) -> Projection<E> {
    let bias = maps.iter().any(|(_, bias)| bias.is_some()).then(|| {
        let part = |(weight, bias): &Map<E>| match bias {
            Some(bias) => bias.to_vec(),
            None => vec![E::default(); weight.dims()[1]],
        };
        maps.iter().flat_map(part).collect()
    });
    let weight = match maps {
        [(one, _)] => pack_b(one.view()),
        _ => {
            let views: Vec<_> = maps.iter().map(|(weight, _)| weight.view()).collect();
            let columns = maps.iter().map(|(weight, _)| weight.dims()[1]).sum();
            let dims = [maps[0].0.dims()[0], columns];
            pack_b(AnyTensor::from_packed(&dims, concat(&views, 1)).view())
        }
    };
    Projection { weight, bias }
}

impl<E: Float> Slot<E> {
    fn holds(&self, maps: &[Map<E>]) -> bool {
        self.of.len() == maps.len()
            && self.of.iter().zip(maps).all(|((of_weight, of_bias), (weight, bias))| {
                of_weight.is(weight)
                    && match (of_bias, bias) {
                        (Some(of), Some(bias)) => of.is(bias),
                        (of, bias) => of.is_none() && bias.is_none(),
                    }
            })
    }
}

impl<E: Float> Source<E> {
    fn of(tensor: &AnyTensor<E>) -> Self {
        Source(Arc::downgrade(tensor.storage()), *tensor.layout())
    }

    fn is(&self, tensor: &AnyTensor<E>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(tensor.storage())) && self.1 == *tensor.layout()
    }
}
