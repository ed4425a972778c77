//! Keys and values of cross attention, projected once for many queries.

use super::multi_head::by_head;
use super::scaled::{Attention, scores};
use super::{AttentionBias, MaskFor, MaskParts, MultiHeadAttention};
use crate::axis::{Batch, Heads, Key, Model, Query, Seq};
use crate::element::Float;
use crate::nn::Mode;
use crate::size::{Size, Static};
use crate::tensor::{AnyTensor, Tensor};
use std::marker::PhantomData;

/// What a layer of `H` heads over the model width `M` projected from what it attends to, for
/// [`MultiHeadAttention::cross_cached`]: the keys and values of an encoder's output, which are the same
/// at every step of the decoder.
///
/// It belongs to the layer that made it; another layer of the same sizes has other weights.
pub struct CrossKeysAndValues<B, M, H, K, E = f32> {
    key: Key<K>,
    keys: AnyTensor<E>,
    values: AnyTensor<E>,
    of: PhantomData<fn() -> (B, M, H)>,
}

impl<M, H, KM, VM, Bi, E> MultiHeadAttention<M, H, KM, VM, Bi, E>
where
    M: Static,
    H: Static,
    KM: Static,
    VM: Static,
    Bi: AttentionBias,
    E: Float,
{
    /// The keys and values that [`cross`](Self::cross) would project, to be used again and again.
    ///
    /// # Shapes
    /// Keys are projected from `(Batch<B>, Seq<K>, Model<KM>)`, values from `(Batch<B>, Seq<K>,
    /// Model<VM>)`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, Generator, Infer, Model, MultiHeadAttention, NoMask, Seq, Tensor, C};
    ///
    /// let mut generator = Generator::seeded(3);
    /// let attention = MultiHeadAttention::<C<8>, C<2>>::xavier(&mut generator);
    /// let memory = Tensor::<(Batch<C<1>>, Seq<C<5>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
    /// let cached = attention.cross_keys_and_values(&memory, &memory, &mut Infer);
    ///
    /// let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
    /// let y = attention.cross_cached(&x, &cached, NoMask, &mut Infer);
    /// assert_eq!(y, attention.cross(&x, &memory, &memory, NoMask, &mut Infer));
    /// ```
    pub fn cross_keys_and_values<B: Size, K: Size>(
        &self,
        key: &Tensor<(Batch<B>, Seq<K>, Model<KM>), E>,
        value: &Tensor<(Batch<B>, Seq<K>, Model<VM>), E>,
        mode: &mut impl Mode,
    ) -> CrossKeysAndValues<B, M, H, K, E> {
        let (k, v) = (self.k.forward(key, mode), self.v.forward(value, mode));
        let [keys, values] = [k.any(), v.any()].map(by_head::<H, E>);
        CrossKeysAndValues { key: Key(key.shape().1.0), keys, values, of: PhantomData }
    }

    /// Cross attention with keys and values that were projected before: the same numbers as
    /// [`cross`](Self::cross).
    ///
    /// # Shapes
    /// Queries from `(Batch<B>, Seq<Q>, Model<M>)`; the result has their shape.
    ///
    /// # Compile errors
    /// `cached_cross_attention_must_have_one_batch`,
    /// `cached_cross_attention_must_have_the_heads_of_the_layer`.
    pub fn cross_cached<B: Size, Q: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<B>, Seq<Q>, Model<M>), E>,
        cached: &CrossKeysAndValues<B, M, H, K, E>,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Seq<Q>, Model<M>), E> {
        let q = by_head::<H, E>(self.q.forward(x, mode).any());
        let mask = MaskParts::of(&mask, scores(&q, &cached.keys));
        let y = Attention::new().run(&q, &cached.keys, &cached.values, &mask);
        self.project_out(x, y, mode)
    }
}

impl<B, M, H, K: Size, E: Float> CrossKeysAndValues<B, M, H, K, E> {
    /// The axis of the keys, for masks.
    pub fn key(&self) -> Key<K> {
        self.key
    }
}
