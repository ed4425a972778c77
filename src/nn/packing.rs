//! Linear maps in the form that the matrix product reads, kept beside the layer.

use crate::element::Float;
use crate::kernel::gemm::{gemm, pack_b};
use crate::kernel::index::concat;
use crate::kernel::layout::Layout;
use crate::kernel::linear::{Projection, linear};
use crate::kernel::reduce::sum;
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

    /// x · W + b over the last axis, for all `maps` side by side; where something is recorded, so is this.
    pub(crate) fn apply(&self, x: &AnyTensor<E>, maps: &[Map<E>]) -> AnyTensor<E> {
        let projection = self.of(maps);
        let dims = x.layout().dims.replaced(x.rank() - 1, projection.weight.dims().1);
        let result = AnyTensor::from_packed(&dims, projection.apply(x.view(), None));
        recorded(result, x, maps, || linear_rule(x, maps))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Slot<E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `result`, computed from x and linear maps: `rule` gives what [`linear_rule`] does.
pub(crate) fn recorded<E: Float, R>(
    result: AnyTensor<E>,
    x: &AnyTensor<E>,
    maps: &[Map<E>],
    rule: impl FnOnce() -> R,
) -> AnyTensor<E>
where
    R: Fn(&AnyTensor<E>) -> Vec<Option<AnyTensor<E>>> + Send + Sync + 'static,
{
    if !is_recorded(x, maps) {
        return result;
    }
    let inputs: Vec<_> = [x].into_iter().chain(maps.iter().flat_map(parts)).collect();
    result.recorded(&inputs, rule)
}

/// Whether a gradient would come through the linear maps of x.
pub(crate) fn is_recorded<E: Float>(x: &AnyTensor<E>, maps: &[Map<E>]) -> bool {
    x.is_recorded() || maps.iter().flat_map(parts).any(AnyTensor::is_recorded)
}

/// The tensors of a map.
fn parts<'a, E>(
    (weight, bias): &Map<'a, E>,
) -> impl Iterator<Item = &'a AnyTensor<E>> + use<'a, E> {
    [*weight].into_iter().chain(*bias)
}

/// The gradients of x, and of each map's weight and bias, given that of [`Packing::apply`]: g · Wᵀ, xᵀ · g
/// and the sum of the rows of g.
pub(crate) fn linear_rule<E: Float>(
    x: &AnyTensor<E>,
    maps: &[Map<E>],
) -> impl Fn(&AnyTensor<E>) -> Vec<Option<AnyTensor<E>>> + Send + Sync + 'static + use<E> {
    let weights: Vec<_> = maps.iter().map(|(weight, _)| weight.detached()).collect();
    let wanted = [x.is_recorded(), maps.iter().flat_map(parts).any(AnyTensor::is_recorded)];
    let has_bias: Vec<_> = maps.iter().map(|(_, bias)| bias.is_some()).collect();
    let x = x.detached();
    move |g| {
        let mut gradients = vec![wanted[0].then(|| {
            let weight = side_by_side(&weights);
            let back = weight.viewed(weight.layout().transposed());
            AnyTensor::from_packed(x.dims(), linear(g.view(), back.view(), None))
        })];
        let of_weights = wanted[1].then(|| {
            let (x, g) = (in_rows(&x), in_rows(g));
            let columns = x.viewed(x.layout().transposed());
            let dims = [columns.dims()[0], g.dims()[1]];
            let weight = AnyTensor::from_packed(&dims, gemm(columns.view(), g.view(), None));
            (weight, AnyTensor::from_packed(&dims[1..], sum(g.view(), 0)))
        });
        let mut start = 0;
        for (weight, has_bias) in weights.iter().zip(&has_bias) {
            let columns = weight.dims()[1];
            let of = of_weights.as_ref().map(|(weight, bias)| {
                (
                    weight.viewed(weight.layout().sliced(1, start, columns)),
                    bias.viewed(bias.layout().sliced(0, start, columns)),
                )
            });
            let (weight, bias) = of.unzip();
            gradients.push(weight);
            gradients.extend(has_bias.then_some(bias));
            start += columns;
        }
        gradients
    }
}

/// All axes but the last as one.
fn in_rows<E: Float>(x: &AnyTensor<E>) -> AnyTensor<E> {
    let (width, leading) = (x.dims()[x.rank() - 1], &x.dims()[..x.rank() - 1]);
    x.reshaped(&[leading.iter().product(), width])
}

/// Weights over (in, out) as one.
fn side_by_side<E: Float>(weights: &[AnyTensor<E>]) -> AnyTensor<E> {
    if let [one] = weights {
        return one.clone();
    }
    let views: Vec<_> = weights.iter().map(AnyTensor::view).collect();
    let columns = weights.iter().map(|weight| weight.dims()[1]).sum();
    AnyTensor::from_packed(&[weights[0].dims()[0], columns], concat(&views, 1))
}

fn pack<E: Float>(maps: &[Map<E>]) -> Projection<E> {
    let bias = maps.iter().any(|(_, bias)| bias.is_some()).then(|| {
        let part = |(weight, bias): &Map<E>| match bias {
            Some(bias) => bias.to_vec(),
            None => vec![E::default(); weight.dims()[1]],
        };
        maps.iter().flat_map(part).collect()
    });
    let weights: Vec<_> = maps.iter().map(|(weight, _)| weight.detached()).collect();
    Projection { weight: pack_b(side_by_side(&weights).view()), bias }
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
