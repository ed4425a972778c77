//! Keys and values of multi-head attention that no activation gives.

use super::{AttentionBias, MaskParts, MultiHeadAttention};
use crate::axis::Model;
use crate::element::Float;
use crate::nn::{Mode, Parameter};
use crate::size::{Size, Static};
use crate::tensor::{AnyTensor, Tensor};

impl<M, H, KM, VM, B: AttentionBias, E: Float> MultiHeadAttention<M, H, KM, VM, B, E> {
    /// With one more key and its value, both learned: every query sees them, whatever the masks say.
    /// Weights that are returned are those of the other keys alone.
    pub fn with_bias_kv(
        mut self,
        key: Tensor<(Model<M>,), E>,
        value: Tensor<(Model<M>,), E>,
    ) -> Self
    where
        M: Size,
    {
        (self.bias_k, self.bias_v) = (Some(Parameter::new(key)), Some(Parameter::new(value)));
        self
    }

    /// With one more key of zeros whose value is 0. Weights that are returned are those of the other keys
    /// alone.
    pub fn with_zero_attention(mut self) -> Self {
        self.zero_attention = true;
        self
    }

    /// Keys besides those of the activations.
    pub(super) fn extra_keys(&self) -> usize {
        usize::from(self.bias_k.is_some()) + usize::from(self.zero_attention)
    }
}

impl<M: Static, H: Static, KM, VM, B: AttentionBias, E: Float>
    MultiHeadAttention<M, H, KM, VM, B, E>
{
    /// The extra keys and values before the others, and the mask that lets every query see them.
    pub(super) fn with_extra_keys(
        &self,
        [q, k, v]: [AnyTensor<E>; 3],
        mask: MaskParts<E>,
        mode: &mut impl Mode,
    ) -> ([AnyTensor<E>; 3], MaskParts<E>) {
        let extra = self.extra_keys();
        if extra == 0 {
            return ([q, k, v], mask);
        }
        let (bias_k, bias_v) = (self.bias_k.as_ref(), self.bias_v.as_ref());
        let (bias_k, bias_v) = (bias_k.map(|p| mode.read(p)), bias_v.map(|p| mode.read(p)));
        let [k, v] = [(k, bias_k), (v, bias_v)].map(|(x, bias)| {
            let zeros = Tensor::<(Model<M>,), E>::zeros();
            let zeros = self.zero_attention.then_some(&zeros);
            // A row of the width, as one position of every sample and head.
            let dims = x.layout().dims.replaced(2, 1);
            let position = |row: &Tensor<(Model<M>,), E>| {
                let by_head = row.any().layout().split(0, H::N, M::N / H::N);
                row.any().viewed(by_head.broadcast(&dims, &[1, 3]))
            };
            let rows: Vec<_> = bias.as_ref().into_iter().chain(zeros).map(position).collect();
            AnyTensor::joined(&rows.iter().chain([&x]).collect::<Vec<_>>(), 2)
        });
        ([q, k, v], mask.with_extra(extra))
    }
}
