//! Learned relative positions.

use super::backward::{RelativeParts, attend};
use super::diagonal::positions;
use super::parts::Start;
use super::scaled::{Attention, scores};
use super::{KvOf, MaskFor, MaskParts};
use crate::attention::Distance;
use crate::axis::{Axis, Batch, HeadDim, Heads, Key, Query};
use crate::element::Float;
use crate::nn::{Mode, Module, Parameter};
use crate::parameters;
use crate::size::{C, Plus, Size, Static};
use crate::tensor::Tensor;

/// A table has one entry for each distance from −X to X.
///
/// # Compile errors
/// `relative_table_must_have_an_entry_for_each_distance`.
#[diagnostic::on_unimplemented(
    message = "a table of {Self} entries is not for distances up to {X}: it needs 2 * {X} + 1, one for each from -{X} to {X}",
    label = "not 2 * {X} + 1 entries"
)]
pub trait EntriesFor<X>: Static {}

#[diagnostic::do_not_recommend]
impl<const T: usize, const X: usize> EntriesFor<C<X>> for C<T> where
    C<X>: Plus<C<X>, Sum: Plus<C<1>, Sum = C<T>>>
{
}

/// Relative positions with learned keys, and where wanted values, for each distance up to a maximum:
/// scoreᵢⱼ = qᵢ · (kⱼ + a_{j−i}) · scale, outputᵢ = Σⱼ weightᵢⱼ (vⱼ + b_{j−i}). Distances beyond the maximum
/// take the entry at that end.
///
/// | here | in the paper |
/// |---|---|
/// | `keys`, a over `(Distance<T>, HeadDim<D>)` | a^K, w^K of 2k + 1 vectors |
/// | `values`, b over `(Distance<T>, V)` | a^V, w^V |
/// | the maximum X, T = 2 · X + 1 | k |
///
/// All heads share the tables. Queries stand at the END of the keys, so a step with a cache is right; with
/// caches of different lengths, [`forward_at`](Self::forward_at) takes the positions.
///
/// # Shapes
/// As [`scaled_dot_product_attention`](crate::scaled_dot_product_attention).
///
/// # Numerics
/// Memory grows with B · H · Q · T: no table over queries and keys exists.
///
/// # Compile errors
/// `relative_table_must_have_an_entry_for_each_distance`.
///
/// # Examples
/// ```
/// use shapeproof::{
///     Batch, HeadDim, Heads, Infer, Key, NoMask, Query, RelativePositions, Tensor, C,
/// };
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<2>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<2>>, HeadDim<C<1>>)>::ones();
/// let far_ahead = Tensor::from([[0.0], [0.0], [8.0]]); // distances -1, 0 and 1
/// let positions = RelativePositions::new(C::<1>, Tensor::zeros()).with_values(far_ahead);
/// let y = positions.forward(&q, &k, &k, NoMask, &mut Infer);
/// assert_eq!(y.to_vec(), [5.0, 1.0]);
/// ```
///
/// # References
/// Shaw et al., "Self-Attention with Relative Position Representations", 2018, equations 3 to 5.
pub struct RelativePositions<T, D, V = HeadDim<D>, E = f32> {
    /// A key for each distance, the least first.
    pub keys: Parameter<(Distance<T>, HeadDim<D>), E>,
    /// A value for each distance, if there are any.
    pub values: Option<Parameter<(Distance<T>, V), E>>,
    attention: Attention,
}

#[diagnostic::do_not_recommend]
impl<T: Size, D: Size, V: Axis, E: Float> Module for RelativePositions<T, D, V, E> {
    parameters!(keys, values);
}

impl<T: Static, D: Size, V: Axis, E: Float> RelativePositions<T, D, V, E> {
    /// These keys for distances up to `max`, and no values.
    pub fn new<X: Static>(_max: X, keys: Tensor<(Distance<T>, HeadDim<D>), E>) -> Self
    where
        T: EntriesFor<X>,
    {
        RelativePositions { keys: Parameter::new(keys), values: None, attention: Attention::new() }
    }

    /// With these values.
    pub fn with_values(self, values: Tensor<(Distance<T>, V), E>) -> Self {
        RelativePositions { values: Some(Parameter::new(values)), ..self }
    }

    /// With these settings in the place of the usual ones.
    pub fn with_attention(self, attention: Attention) -> Self {
        RelativePositions { attention, ..self }
    }

    /// Attention with relative positions, queries at the END of the keys.
    pub fn forward<B: Size, H: Size, KV: KvOf<Heads<H>>, Q: Size, K: Size>(
        &self,
        queries: &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<K>, V), E>,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Heads<H>, Query<Q>, V), E> {
        let [.., query, key] = scores(queries.any(), keys.any());
        let start = Start::same(key.cast_signed() - query.cast_signed());
        self.run((queries, keys, values), start, mask, mode)
    }

    /// As [`forward`](Self::forward), with query i of sample b at key `starts[b]` + i.
    pub fn forward_at<B: Size, H: Size, KV: KvOf<Heads<H>>, Q: Size, K: Size>(
        &self,
        (queries, starts): (
            &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
            &Tensor<(Batch<B>,), i64>,
        ),
        keys: &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<K>, V), E>,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Heads<H>, Query<Q>, V), E> {
        let start = Start::by_sample(&positions(starts));
        self.run((queries, keys, values), start, mask, mode)
    }

    fn run<B: Size, H: Size, KV: KvOf<Heads<H>>, Q: Size, K: Size>(
        &self,
        (queries, keys, values): (
            &Tensor<(Batch<B>, Heads<H>, Query<Q>, HeadDim<D>), E>,
            &Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
            &Tensor<(Batch<B>, KV, Key<K>, V), E>,
        ),
        start: Start,
        mask: impl MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<B>, Heads<H>, Query<Q>, V), E> {
        let (batch, heads_of, query, _) = queries.shape();
        let mask = MaskParts::of(&mask, scores(queries.any(), keys.any()));
        let table = mode.read(&self.keys);
        let products = queries.dot(&table, HeadDim).erase();
        let values_of = self.values.as_ref().map(|values| mode.read(values).erase());
        let relative = RelativeParts { products, values: values_of, max: T::N / 2, start };
        let heads = [queries.any(), keys.any(), values.any()];
        let out = attend(&self.attention, heads, &mask, Some(relative));
        Tensor::typed((batch, heads_of, query, values.shape().3), out)
    }
}
