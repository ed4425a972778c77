//! Scaled dot-product attention.

use super::backward::{attend, attend_with_log_sums, attend_with_weights, scores_at};
use super::{KvOf, MaskFor, MaskParts};
use crate::axis::{Axis, Batch, HeadDim, Heads, Key, Query};
use crate::element::Float;
use crate::kernel::attention::{Settings, Stage};
use crate::kernel::dropout::Dropout as KernelDropout;
use crate::nn::{Dropout, Mode};
use crate::size::Size;
use crate::tensor::{AnyTensor, Generator, Tensor};

/// softmax(Q · Kᵀ / √D, over the keys that `mask` shows) · V, for every sample and head.
///
/// | here | in the paper | |
/// |---|---|---|
/// | `queries` over `(Batch, Heads<H>, Query<Q>, HeadDim<D>)` | Q | D is d_k |
/// | `keys` over `(Batch, KV, Key<K>, HeadDim<D>)` | K | KV is `Heads<H>`, or `KvHeads<G>` where G divides H |
/// | `values` over `(Batch, KV, Key<K>, V)` | V | V is `HeadDim<D>`, or any axis of another width, d_v |
///
/// # Shapes
/// The result is over `(Batch, Heads<H>, Query<Q>, V)`. Keys and values have one length and one
/// number of heads: that is one type parameter, so they cannot disagree.
///
/// # Numerics
/// The scale is 1/√D; [`Attention`] takes another. Scores, weights and sums are f64 for f64, else
/// f32. The scores are never held as a whole. A query that sees no key gets 0.
///
/// # Compile errors
/// `keys_and_values_must_have_one_length`, `queries_and_keys_must_have_one_width`,
/// `mask_must_cover_query_by_key`.
///
/// # Examples
/// ```
/// use shapeproof::{scaled_dot_product_attention, Batch, Causal, HeadDim, Heads, Key, Query, Tensor, C};
///
/// // Queries of 0 weigh all visible keys alike.
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<2>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<4>>, HeadDim<C<1>>)>::ones();
/// let v = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<4>>, HeadDim<C<1>>)>::from([[[
///     [4.0], [8.0], [12.0], [16.0],
/// ]]]);
/// let y = scaled_dot_product_attention(&q, &k, &v, Causal);
/// assert_eq!(y.to_vec(), [8.0, 10.0]);
/// ```
///
/// # References
/// Vaswani et al., "Attention Is All You Need", 2017, equation 1.
pub fn scaled_dot_product_attention<B, H, KV, Q, K, D, V, E>(
    queries: &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
    keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
    values: &Tensor<(Batch<B>, KV, Key<K>, V), E>,
    mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
) -> Tensor<(Batch<B>, Heads<H>, Query<Q>, V), E>
where
    B: Size,
    H: Size,
    KV: KvOf<Heads<H>>,
    Q: Size,
    K: Size,
    D: Size,
    V: Axis,
    E: Float,
{
    Attention::new().apply(queries, keys, values, mask)
}

/// Scaled dot-product attention with settings other than the usual ones.
///
/// # Examples
/// ```
/// use shapeproof::{Attention, Batch, HeadDim, Heads, Key, NoMask, Query, Tensor, C};
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<1>>)>::ones();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<2>>, HeadDim<C<1>>)>::from([[[[0.0], [9.0]]]]);
/// let (y, weights) = Attention::new().scale(0.0).apply_with_weights(&q, &k, &k, NoMask);
/// assert_eq!(weights.to_vec(), [0.5, 0.5]);
/// assert_eq!(y.to_vec(), [4.5]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attention {
    scale: Option<f64>,
    softcap: Option<f64>,
    dropout: Option<KernelDropout>,
}

impl Attention {
    /// The usual settings: scores divided by √D.
    pub fn new() -> Self {
        Self::default()
    }

    /// Scores multiplied by `scale` in the place of 1/√D.
    pub fn scale(self, scale: f64) -> Self {
        Attention { scale: Some(scale), ..self }
    }

    /// Scores s become cap · tanh(s / cap), so that none is beyond ±cap: after the scale, before masks and
    /// what they add. A cap of 0 is none.
    ///
    /// # References
    /// Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024, section 2.
    pub fn softcap(self, cap: f64) -> Self {
        Attention { softcap: Some(cap).filter(|&cap| cap != 0.0), ..self }
    }

    /// Under [`Train`](crate::Train), dropout on the weights: each is 0 with the dropout's probability,
    /// and the others are divided by what is left of it. Weights that are returned are those after
    /// dropout. Under [`Infer`](crate::Infer), nothing.
    ///
    /// Which weights are dropped depends on what the mode's generator gives next and on their places
    /// alone, not on the number of threads.
    pub fn dropout(self, dropout: Dropout, mode: &mut impl Mode) -> Self {
        let p = dropout.probability();
        let seed = mode.generator().filter(|_| p > 0.0).map(Generator::bits);
        Attention { dropout: seed.map(|seed| KernelDropout::new(p, seed)), ..self }
    }

    /// The attention's output; see [`scaled_dot_product_attention`].
    pub fn apply<B, H, KV, Q, K, D, V, E>(
        &self,
        queries: &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<K>, V), E>,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
    ) -> Tensor<(Batch<B>, Heads<H>, Query<Q>, V), E>
    where
        B: Size,
        H: Size,
        KV: KvOf<Heads<H>>,
        Q: Size,
        K: Size,
        D: Size,
        V: Axis,
        E: Float,
    {
        let (batch, heads, query, _) = queries.shape();
        let mask = MaskParts::of(&mask, scores(queries.any(), keys.any()));
        let out = self.run(queries.any(), keys.any(), values.any(), &mask);
        Tensor::typed((batch, heads, query, values.shape().3), out)
    }

    /// The attention's output and its weights: the softmax of the scores, which are 0 for what a
    /// query may not see and otherwise sum to one.
    pub fn apply_with_weights<B, H, KV, Q, K, D, V, E>(
        &self,
        queries: &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<K>, V), E>,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
    ) -> (
        Tensor<(Batch<B>, Heads<H>, Query<Q>, V), E>,
        Tensor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
    )
    where
        B: Size,
        H: Size,
        KV: KvOf<Heads<H>>,
        Q: Size,
        K: Size,
        D: Size,
        V: Axis,
        E: Float,
    {
        let (batch, heads, query, _) = queries.shape();
        let mask = MaskParts::of(&mask, scores(queries.any(), keys.any()));
        let (out, weights) = self.run_with_weights(queries.any(), keys.any(), values.any(), &mask);
        let out = Tensor::typed((batch, heads, query, values.shape().3), out);
        (out, Tensor::typed((batch, heads, query, keys.shape().2), weights))
    }

    /// The attention's output, and for each query the logarithm of the sum of e to its visible scores: −∞
    /// where it sees no key.
    ///
    /// What two attentions over different keys give can be put together by it: with m the greater of the
    /// two and wᵢ = exp(log sumᵢ − m), the output over all keys is Σ wᵢ · outputᵢ / Σ wᵢ. Both have gradients.
    pub fn apply_with_log_sums<B, H, KV, Q, K, D, V, E>(
        &self,
        queries: &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<K>, V), E>,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
    ) -> (Tensor<(Batch<B>, Heads<H>, Query<Q>, V), E>, Tensor<(Batch<B>, Heads<H>, Query<Q>), E>)
    where
        B: Size,
        H: Size,
        KV: KvOf<Heads<H>>,
        Q: Size,
        K: Size,
        D: Size,
        V: Axis,
        E: Float,
    {
        let (batch, heads, query, _) = queries.shape();
        let mask = MaskParts::of(&mask, scores(queries.any(), keys.any()));
        let heads_of = [queries.any(), keys.any(), values.any()];
        let (out, log_sums) = attend_with_log_sums(self, heads_of, &mask);
        let out = Tensor::typed((batch, heads, query, values.shape().3), out);
        (out, Tensor::typed((batch, heads, query), log_sums))
    }

    /// The scores of every query and key, at one of the stages on their way to weights. They are held as a
    /// whole: this is for looking at them. What is hidden has the gradient 0.
    ///
    /// With [`apply_with_weights`](Self::apply_with_weights) for the last one, these are the four outputs
    /// that the ONNX operator calls `qk_matmul_output`, modes 0 to 3.
    pub fn scores<B, H, KV, Q, K, D, E>(
        &self,
        queries: &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
        stage: Stage,
    ) -> Tensor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>
    where
        B: Size,
        H: Size,
        KV: KvOf<Heads<H>>,
        Q: Size,
        K: Size,
        D: Size,
        E: Float,
    {
        let (batch, heads, query, _) = queries.shape();
        let mask = MaskParts::of(&mask, scores(queries.any(), keys.any()));
        let scores = scores_at(self, [queries.any(), keys.any()], &mask, stage);
        Tensor::typed((batch, heads, query, keys.shape().2), scores)
    }

    /// The output over (batch, heads, queries, value width), laid out so that merging its heads moves
    /// no data.
    pub(super) fn run<E: Float>(
        &self,
        queries: &AnyTensor<E>,
        keys: &AnyTensor<E>,
        values: &AnyTensor<E>,
        mask: &MaskParts<E>,
    ) -> AnyTensor<E> {
        attend(self, [queries, keys, values], mask, None)
    }

    /// As `run`, with the weights over (batch, heads, queries, keys).
    pub(super) fn run_with_weights<E: Float>(
        &self,
        queries: &AnyTensor<E>,
        keys: &AnyTensor<E>,
        values: &AnyTensor<E>,
        mask: &MaskParts<E>,
    ) -> (AnyTensor<E>, AnyTensor<E>) {
        attend_with_weights(self, [queries, keys, values], mask)
    }

    /// The kernel's form, for heads of this width; the scale is 1/√D unless given.
    pub(super) fn settings<'a, E>(&self, head_dim: usize) -> Settings<'a, E> {
        #[allow(clippy::cast_precision_loss, reason = "no head is wider than 2⁵³")]
        let usual = || 1.0 / (head_dim.max(1) as f64).sqrt();
        let &Attention { scale, softcap, dropout } = self;
        Settings { softcap, dropout, ..Settings::scaled(scale.unwrap_or_else(usual)) }
    }
}

/// The sizes of the scores: batch, heads, queries, keys.
pub(super) fn scores<E: Float>(queries: &AnyTensor<E>, keys: &AnyTensor<E>) -> [usize; 4] {
    let ([batch, heads, query, _], [.., key, _]) = (queries.dims(), keys.dims()) else {
        unreachable!("queries and keys have four axes")
    };
    [*batch, *heads, *query, *key]
}
