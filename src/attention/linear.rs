//! Attention in linear time.

use super::backward::heads_inside;
use super::scaled::scores;
use super::{And, Causal, CausalFromStart, KvOf, MaskFor, MaskParts, NoMask, Prefix};
use crate::axis::{Axis, Batch, HeadDim, Heads, Key, Query};
use crate::element::Float;
pub use crate::kernel::linear_attention::FeatureMap;
use crate::size::{Ours, Size};
use crate::tensor::{AnyTensor, Tensor};

/// Attention whose weights are products of features, so that the sum over the keys is taken once for
/// all queries: outᵢ = φ(qᵢ) · Σⱼ φ(kⱼ)ᵀ vⱼ / φ(qᵢ) · Σⱼ φ(kⱼ), over the keys j that query i sees.
///
/// It stands in the place of softmax attention, whose weight exp(q · k / √D) no finite φ gives: a model
/// is trained with the one or with the other, and the results are not close to those of
/// [`scaled_dot_product_attention`](crate::scaled_dot_product_attention). A [`FeatureMap`] says which φ.
/// There is no scale.
///
/// # Shapes
/// As softmax attention: queries over `(Batch, Heads<H>, Query<Q>, HeadDim<D>)`, keys over `(Batch, KV,
/// Key<K>, HeadDim<D>)`, values over `(Batch, KV, Key<K>, V)`, the result over `(Batch, Heads<H>,
/// Query<Q>, V)`. KV is `Heads<H>`, or `KvHeads<G>` where G divides H.
///
/// # Numerics
/// Sums run along the keys, never along heads, in f64 for f64, else in f32, and are divided by the sum
/// of weights. A query that sees no key, or whose weights are all 0, gets 0; what a hidden key or value
/// holds reaches nothing. With a causal mask, 64 queries at a time share a running sum. Time is
/// O((Q + K) · D · Dv), memory O((Q + K) · (D + Dv) + D · Dv) for each head, and that of the gradients is
/// the same: they make the sums again. A query that gets 0 has the gradient 0, and so has the direction of a
/// vector of zeros.
///
/// # Compile errors
/// `mask_of_linear_attention_must_not_tell_queries_apart`,
/// `queries_and_keys_of_linear_attention_must_have_one_width`.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Causal, FeatureMap, HeadDim, Heads, Key, LinearAttention, Query, Tensor, C};
///
/// type By<S> = Tensor<(Batch<C<1>>, Heads<C<2>>, S, HeadDim<C<1>>)>;
/// let q = By::<Query<C<2>>>::ones();
/// let k = By::<Key<C<2>>>::from([[[[1.0], [3.0]], [[2.0], [2.0]]]]);
/// let v = By::<Key<C<2>>>::from([[[[1.0], [5.0]], [[1.0], [5.0]]]]);
/// let y = LinearAttention::new(FeatureMap::Relu).apply(&q, &k, &v, Causal);
/// assert_eq!(y.to_vec(), [1.0, 4.0, 1.0, 3.0]);
/// ```
///
/// # References
/// Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention",
/// 2020: equations 5 and 6 for all keys, 9 to 12 for causal attention; their S is the running sum, their Z
/// that of the features. Li et al., "Linear Attention Mechanism: An Efficient Attention for Semantic
/// Segmentation", 2020, for [`FeatureMap::Normalized`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearAttention {
    features: FeatureMap,
}

impl LinearAttention {
    /// Linear attention with these features.
    pub fn new(features: FeatureMap) -> Self {
        LinearAttention { features }
    }

    /// The attention's output.
    pub fn apply<B, H, KV, Q, K, D, V, E>(
        &self,
        queries: &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<K>, V), E>,
        mask: impl LinearMask<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
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
        let (layout, mut out) = heads_inside(queries.any(), values.any());
        let (inputs, by) = ([queries.any(), keys.any(), values.any()], self.features);
        E::linear_attention(inputs.map(AnyTensor::view), by, &mask.lent(), &mut out);
        let out = AnyTensor::in_layout(layout, out).recorded(&inputs, || {
            let inputs = inputs.map(AnyTensor::detached);
            move |d_out| {
                let views = inputs.each_ref().map(AnyTensor::view);
                let found = E::linear_attention_backward(views, by, &mask.lent(), d_out.view());
                let typed = |(input, data): (&AnyTensor<E>, _)| {
                    Some(AnyTensor::from_packed(input.dims(), data))
                };
                inputs.iter().zip(found).map(typed).collect()
            }
        });
        Tensor::typed((batch, heads, query, values.shape().3), out)
    }
}

/// A mask that linear attention can follow: one that shows each query the first keys, and no query fewer
/// than the one before it ([`NoMask`], [`Causal`], [`CausalFromStart`], [`Prefix`]), or hides keys from all
/// queries of a sample (booleans over `(Batch, Key)` or `(Key,)`), or `&` of such.
///
/// # Compile errors
/// `mask_of_linear_attention_must_not_tell_queries_apart`.
#[diagnostic::on_unimplemented(
    message = "{Self} is no mask for linear attention over {Scores}",
    label = "write `NoMask`, `Causal`, `CausalFromStart`, `Prefix`, booleans over `(Batch, Key)` or `(Key,)`, or `&` of them"
)]
pub trait LinearMask<Scores, E = f32>: MaskFor<Scores, E> {
    #[doc(hidden)]
    const OURS: Ours;
}

macro_rules! linear_masks {
    ($($Mask:ty;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<B: Size, H: Size, Q: Size, K: Size, E: Float>
            LinearMask<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E> for $Mask
        {
            const OURS: Ours = Ours;
        }
    )+ };
}
linear_masks! {
    NoMask;
    Causal;
    CausalFromStart;
    Prefix;
    Tensor<(Key<K>,), bool>;
    Tensor<(Batch<B>, Key<K>), bool>;
}

#[diagnostic::do_not_recommend]
impl<Scores, E, A: LinearMask<Scores, E>, B: LinearMask<Scores, E>> LinearMask<Scores, E>
    for And<A, B>
{
    const OURS: Ours = Ours;
}

#[diagnostic::do_not_recommend]
impl<Scores, E, A: LinearMask<Scores, E> + ?Sized> LinearMask<Scores, E> for &A {
    const OURS: Ours = Ours;
}
