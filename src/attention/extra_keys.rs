//! Keys and values of multi-head attention that no activation gives.

use super::{AttentionBias, MaskParts, MultiHeadAttention};
use crate::axis::Model;
use crate::element::Float;
use crate::nn::{Mode, Parameter};
use crate::size::{Size, Static};
use crate::tensor::{AnyTensor, Tensor};

impl<M, H, KM, VM, B: AttentionBias, E: Float> MultiHeadAttention<M, H, KM, VM, B, E> {
    /// With one more key and its value, both learned: every query sees them, whatever the masks say.
    /// Weights that are returned are those of the other keys alone. Of a layer that has one of the two alone,
    /// the other is 0.
    ///
    /// ```
    /// use shapeproof::{Batch, Generator, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor, C};
    ///
    /// let mut generator = Generator::seeded(1);
    /// let mut random = || Tensor::<(Model<C<4>>,)>::normal(0.0, 1.0, &mut generator);
    /// let (key, x) = (random(), random());
    /// let layer = || MultiHeadAttention::<C<4>, C<2>>::xavier(&mut Generator::seeded(2));
    /// let zero = layer().with_bias_kv(key.clone(), Tensor::zeros());
    /// let mut alone = layer().with_bias_kv(key, Tensor::zeros());
    /// alone.bias_v = None;
    /// let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<4>>)>::zeros().add(&x);
    /// let [zero, alone, none] =
    ///     [zero, alone, layer()].map(|layer| layer.forward(&x, NoMask, &mut Infer));
    /// assert_eq!(alone, zero);
    /// assert_ne!(alone, none);
    /// ```
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
        usize::from(self.has_extra_row()) + usize::from(self.zero_attention)
    }

    /// Whether a learned key or value stands before the others; of one alone, the other is 0.
    fn has_extra_row(&self) -> bool {
        self.bias_k.is_some() || self.bias_v.is_some()
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
        let bias_k = self.bias_k.as_ref().map(|key| mode.read(key));
        let bias_v = self.bias_v.as_ref().map(|value| mode.read(value));
        let [k, v] = [(k, bias_k), (v, bias_v)].map(|(x, bias)| {
            let zeros = Tensor::<(Model<M>,), E>::zeros();
            let bias = self.has_extra_row().then_some(bias.as_ref().unwrap_or(&zeros));
            let zeros = self.zero_attention.then_some(&zeros);
            // A row of the width, as one position of every sample and head.
            let dims = x.layout().dims.replaced(2, 1);
            let position = |row: &Tensor<(Model<M>,), E>| {
                let by_head = row.any().layout().split(0, H::N, M::N / H::N);
                row.any().viewed(by_head.broadcast(&dims, &[1, 3]))
            };
            let rows: Vec<_> = bias.into_iter().chain(zeros).map(position).collect();
            AnyTensor::joined(&rows.iter().chain([&x]).collect::<Vec<_>>(), 2)
        });
        ([q, k, v], mask.with_extra(extra))
    }
}
