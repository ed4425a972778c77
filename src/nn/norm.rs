//! What layer norm and RMS norm have in common: the operation and its gradient rule.

use crate::element::Float;
use crate::kernel::norm::Norm;
use crate::tensor::AnyTensor;

/// A norm over the last elements of a tensor, as many as `weight` has. Both parameters are packed.
#[derive(Clone, Copy)]
pub(super) struct NormOf<'a, E> {
    pub(super) weight: &'a AnyTensor<E>,
    pub(super) bias: Option<&'a AnyTensor<E>>,
    /// Whether the rows lose their mean.
    pub(super) centered: bool,
    pub(super) epsilon: f64,
}

impl<E: Float> NormOf<'_, E> {
    /// The normalised x.
    pub(super) fn of(self, x: &AnyTensor<E>) -> AnyTensor<E> {
        let result = AnyTensor::from_packed(x.dims(), E::normalized(x.view(), self.kernel()));
        if !self.is_recorded(x) {
            return result;
        }
        let inputs: Vec<_> = [x, self.weight].into_iter().chain(self.bias).collect();
        result.recorded(&inputs, || {
            let (x, weight, has_bias) = (x.detached(), self.weight.detached(), self.bias.is_some());
            let NormOf { centered, epsilon, .. } = self;
            move |g| {
                let norm = NormOf { weight: &weight, bias: None, centered, epsilon };
                let [of_x, of_weight, of_bias] =
                    E::norm_backward(x.view(), g.view(), norm.kernel());
                let parameter = |data| Some(AnyTensor::from_packed(weight.dims(), data));
                let mut gradients = vec![Some(AnyTensor::from_packed(x.dims(), of_x))];
                gradients.push(parameter(of_weight));
                gradients.extend(has_bias.then(|| parameter(of_bias)));
                gradients
            }
        })
    }

    /// Puts the normalised rows in the place of x's.
    pub(super) fn apply(self, x: &mut AnyTensor<E>) {
        if self.is_recorded(x) {
            *x = self.of(x);
            return;
        }
        let norm = self.kernel();
        x.update(|rows| E::normalize_in_place(rows, norm), |rows| E::normalized(rows, norm));
    }

    fn is_recorded(&self, x: &AnyTensor<E>) -> bool {
        x.is_recorded()
            || self.weight.is_recorded()
            || self.bias.is_some_and(AnyTensor::is_recorded)
    }

    fn kernel(&self) -> Norm<'_, E> {
        Norm {
            size: self.weight.count(),
            centered: self.centered,
            epsilon: self.epsilon,
            weight: self.weight.as_slice(),
            bias: self.bias.and_then(AnyTensor::as_slice),
        }
    }
}
