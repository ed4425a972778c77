//! Attention whose key/value heads may be fewer than its heads, and whose heads have a width of their own.

use super::RotatedBy;
use super::scaled::{Attention, scores};
use super::{AttentionBias, CoversPositions, KvOf, MaskFor, MaskParts, Pairing, RotaryTable};
use crate::axis::{Axis, Batch, Folded, HeadDim, Heads, Key, Model, Query, Seq};
use crate::element::Float;
use crate::nn::{AnyParameter, Bias, Dropout, Linear, Mode, Module, Packing, ReadMap, RmsNorm};
use crate::parameters;
use crate::size::{Size, Static};
use crate::tensor::{AnyTensor, Generator, Tensor};

/// Self attention with grouped heads: Concat(head₁, …, head_H) · W_O + b_O, headₕ = Attention(Qₕ, K_g,
/// V_g), where g = h / (H/G): H/G neighbouring query heads share one key/value head.
///
/// `M` is the model width, `H` the number of heads, `D` the width of one, free of M/H. `KV` are the
/// key/value heads, `Heads<H>` or `KvHeads<G>` where G divides H, which is a bound of every constructor.
/// `B` says which projections have a bias ([`AttentionBias`]). Llama, Mistral, Qwen and Gemma are made of
/// it.
///
/// Head h has features h · D to (h + 1) · D − 1 of its projections.
///
/// # Shapes
/// [`forward`](Self::forward): `(Batch, Seq<S>, Model<M>)` in and out. The steps of it are methods too, for
/// blocks of one's own: [`project`](Self::project), or [`queries`](Self::queries) and
/// [`keys_and_values`](Self::keys_and_values), then attention over any keys, then
/// [`output`](Self::output).
///
/// # Numerics
/// Scores are divided by √D, unless `attention` says otherwise; see
/// [`scaled_dot_product_attention`](crate::scaled_dot_product_attention). A query that sees no key
/// contributes 0 before the output projection.
///
/// # Compile errors
/// `grouped_kv_heads_must_divide_the_heads`, `annotated_kv_heads_must_divide_the_heads`,
/// `grouped_attention_in_generic_code_needs_its_bound`, `grouped_attention_must_fit_the_width`.
///
/// # Examples
/// ```
/// use shapeproof::{
///     Batch, Causal, Generator, GroupedAttention, Infer, KvHeads, Model, NoBias, Rotary, Seq, Tensor, C,
/// };
///
/// let mut generator = Generator::seeded(7);
/// // Width 20; 6 heads of width 8 share 3 key/value heads.
/// let attention =
///     GroupedAttention::<C<20>, C<6>, C<8>, KvHeads<C<3>>, NoBias>::xavier(&mut generator);
/// let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<20>>)>::normal(0.0, 1.0, &mut generator);
/// let positions = Rotary::<C<8>>::try_new(10_000.0)?.try_at(0, Seq(C::<5>))?;
/// let y = attention.forward_rotated(&x, &positions, Causal, &mut Infer);
/// assert_eq!(y.shape(), x.shape());
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models", 2023; for norms of queries
/// and keys, Henry et al., "Query-Key Normalization for Transformers", 2020.
pub struct GroupedAttention<
    M,
    H: Size,
    D: Size,
    KV: Axis = Heads<H>,
    B: AttentionBias = Bias,
    E = f32,
> {
    /// W_Q and b_Q.
    pub q: Linear<Model<M>, Folded<Heads<H>, HeadDim<D>>, B::Query, E>,
    /// W_K and b_K.
    pub k: Linear<Model<M>, Folded<KV, HeadDim<D>>, B::Key, E>,
    /// W_V and b_V.
    pub v: Linear<Model<M>, Folded<KV, HeadDim<D>>, B::Value, E>,
    /// W_O and b_O.
    pub out: Linear<Folded<Heads<H>, HeadDim<D>>, Model<M>, B::Out, E>,
    /// The norm of each head's queries, where there is one.
    pub q_norm: Option<RmsNorm<HeadDim<D>, E>>,
    /// The norm of each head's keys, where there is one.
    pub k_norm: Option<RmsNorm<HeadDim<D>, E>>,
    /// How scores become weights.
    pub attention: Attention,
    /// On the weights, in training.
    pub dropout: Dropout,
    packing: Packing<E>,
}

#[diagnostic::do_not_recommend]
impl<M: Size, H: Size, D: Size, KV: Axis, B: AttentionBias, E: Float> Module
    for GroupedAttention<M, H, D, KV, B, E>
{
    parameters!(q as "q_proj", k as "k_proj", v as "v_proj", out as "out_proj", q_norm, k_norm);
}

impl<M: Size, H: Size, D: Size, KV: Axis, B: AttentionBias, E: Float>
    GroupedAttention<M, H, D, KV, B, E>
{
    /// A layer of zeros, to be loaded.
    pub fn zeros() -> Self
    where
        KV: KvOf<Heads<H>> + Default,
        M: Static,
        H: Static,
        D: Static,
    {
        Self::of(Linear::zeros(), Linear::zeros(), Linear::zeros(), Linear::zeros())
    }

    /// A layer whose weights are drawn by Xavier's rule, each of q, k, v and out with its own fans,
    /// and whose biases are 0.
    pub fn xavier(generator: &mut Generator) -> Self
    where
        KV: KvOf<Heads<H>> + Default,
        M: Static,
        H: Static,
        D: Static,
    {
        let (q, k) = (Linear::xavier(generator), Linear::xavier(generator));
        let (v, out) = (Linear::xavier(generator), Linear::xavier(generator));
        Self::of(q, k, v, out)
    }

    /// A layer of these projections.
    pub fn of(
        q: Linear<Model<M>, Folded<Heads<H>, HeadDim<D>>, B::Query, E>,
        k: Linear<Model<M>, Folded<KV, HeadDim<D>>, B::Key, E>,
        v: Linear<Model<M>, Folded<KV, HeadDim<D>>, B::Value, E>,
        out: Linear<Folded<Heads<H>, HeadDim<D>>, Model<M>, B::Out, E>,
    ) -> Self
    where
        KV: KvOf<Heads<H>>,
    {
        let (attention, dropout) = (Attention::new(), Dropout::NONE);
        let (q_norm, k_norm, packing) = (None, None, Packing::default());
        GroupedAttention { q, k, v, out, q_norm, k_norm, attention, dropout, packing }
    }

    /// With these settings in the place of the usual ones: another scale, a cap.
    pub fn with_attention(self, attention: Attention) -> Self {
        GroupedAttention { attention, ..self }
    }

    /// With dropout on the weights, in training.
    pub fn with_dropout(self, dropout: Dropout) -> Self {
        GroupedAttention { dropout, ..self }
    }

    /// With a norm of weight 1 for each head's queries and one for its keys, as Qwen 3 and Gemma 3 have
    /// them.
    pub fn with_norms(mut self, epsilon: f64) -> Self {
        let (_, dim) = self.q.weight.shape().1.parts();
        self.q_norm = Some(RmsNorm::new_in((dim,), epsilon));
        self.k_norm = Some(RmsNorm::new_in((dim,), epsilon));
        self
    }

    /// Self attention.
    pub fn forward<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E> {
        let (q, k, v) = self.project(x, mode);
        self.output(&self.attend(&q, &k, &v, mask, mode), mode)
    }

    /// Self attention whose queries and keys are turned by their positions.
    ///
    /// # Compile errors
    /// `rotary_table_of_grouped_attention_must_cover_the_positions`,
    /// `rotary_width_of_grouped_attention_must_be_at_most_the_head_dim`.
    pub fn forward_rotated<Z: Size, S: Size, T, R, P: Pairing>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        positions: &RotaryTable<T, R, P, E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E>
    where
        T: CoversPositions<(Batch<Z>, Seq<S>)>,
        D: RotatedBy<R>,
    {
        let (q, k, v) = self.project(x, mode);
        let q = Tensor::typed(q.shape(), positions.turn(q.any()));
        let k = Tensor::typed(k.shape(), positions.turn(k.any()));
        self.output(&self.attend(&q, &k, &v, mask, mode), mode)
    }

    /// As [`forward`](Self::forward), with the attention weights of each head.
    pub fn forward_with_weights<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> (Tensor<(Batch<Z>, Seq<S>, Model<M>), E>, Tensor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>)
    {
        let (q, k, v) = self.project(x, mode);
        let mask = MaskParts::of(&mask, scores(q.any(), k.any()));
        let attention = self.attention.dropout(self.dropout, mode);
        let (y, weights) = attention.run_with_weights(q.any(), k.any(), v.any(), &mask);
        let (batch, heads, query, _) = q.shape();
        let y = self.output(&Tensor::typed(q.shape(), y), mode);
        (y, Tensor::typed((batch, heads, query, k.shape().2), weights))
    }

    /// The queries of each head, normalised where there is a norm.
    pub fn queries<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Heads<H>, Query<S>, HeadDim<D>), E> {
        let rows = self.q.forward(x, mode);
        self.as_queries(x, rows.any(), mode)
    }

    /// The keys and values of each key/value head, the keys normalised where there is a norm.
    pub fn keys_and_values<Z: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<K>, Model<M>), E>,
        mode: &mut impl Mode,
    ) -> (
        Tensor<(Batch<Z>, KV, Key<K>, HeadDim<D>), E>,
        Tensor<(Batch<Z>, KV, Key<K>, HeadDim<D>), E>,
    ) {
        let (k, v) = (self.k.forward(x, mode), self.v.forward(x, mode));
        (self.as_keys(x, k.any(), mode), self.as_values(x, v.any()))
    }

    /// [`queries`](Self::queries) and [`keys_and_values`](Self::keys_and_values) of one `x`, by one matrix
    /// product.
    pub fn project<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mode: &mut impl Mode,
    ) -> (
        Tensor<(Batch<Z>, Heads<H>, Query<S>, HeadDim<D>), E>,
        Tensor<(Batch<Z>, KV, Key<S>, HeadDim<D>), E>,
        Tensor<(Batch<Z>, KV, Key<S>, HeadDim<D>), E>,
    ) {
        let [q, k, v] = self.fused(x.any(), mode);
        let (q, k) = (self.as_queries(x, &q, mode), self.as_keys(x, &k, mode));
        (q, k, self.as_values(x, &v))
    }

    /// The attention of each head, with the layer's settings and dropout: what lies between
    /// [`project`](Self::project) and [`output`](Self::output), for keys and values of any place, such as
    /// those of a [`KvCache`](crate::KvCache).
    ///
    /// ```
    /// use shapeproof::{
    ///     Attention, Batch, Causal, Generator, GroupedAttention, Infer, KvHeads, Model, NoBias, Seq, Tensor, C,
    /// };
    ///
    /// let mut generator = Generator::seeded(1);
    /// let layer = GroupedAttention::<C<8>, C<4>, C<6>, KvHeads<C<2>>, NoBias>::xavier(&mut generator)
    ///     .with_attention(Attention::new().softcap(30.0));
    /// let x = Tensor::<(Batch<C<2>>, Seq<C<3>>, Model<C<8>>)>::normal(0.0, 1.0, &mut generator);
    /// let (q, k, v) = layer.project(&x, &mut Infer);
    /// let y = layer.attend(&q, &k, &v, Causal, &mut Infer);
    /// assert_eq!(layer.output(&y, &mut Infer), layer.forward(&x, Causal, &mut Infer));
    /// ```
    pub fn attend<Z: Size, Q: Size, K: Size>(
        &self,
        queries: &Tensor<(Batch<Z>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        keys: &Tensor<(Batch<Z>, KV, Key<K>, HeadDim<D>), E>,
        values: &Tensor<(Batch<Z>, KV, Key<K>, HeadDim<D>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<Q>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Heads<H>, Query<Q>, HeadDim<D>), E> {
        // That the key/value heads divide the heads, the layer's constructor has proven.
        let mask = MaskParts::of(&mask, scores(queries.any(), keys.any()));
        let attention = self.attention.dropout(self.dropout, mode);
        let y = attention.run(queries.any(), keys.any(), values.any(), &mask);
        Tensor::typed(queries.shape(), y)
    }

    /// The output projection of the merged heads.
    pub fn output<Z: Size, Q: Size>(
        &self,
        y: &Tensor<(Batch<Z>, Heads<H>, Query<Q>, HeadDim<D>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<Q>, Model<M>), E> {
        let (batch, _, Query(query), _) = y.shape();
        let shape = (batch, Seq(query), self.out.weight.shape().0);
        let merged = Tensor::typed(shape, y.any().merge_heads());
        self.out.forward(&merged, mode)
    }

    fn as_queries<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        rows: &AnyTensor<E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Heads<H>, Query<S>, HeadDim<D>), E> {
        let (batch, Seq(size), _) = x.shape();
        let (heads, dim) = self.q.weight.shape().1.parts();
        let q = rows.split_heads(heads.size().get(), dim.size().get());
        let q = Tensor::typed((batch, heads, Query(size), dim), q);
        match &self.q_norm {
            Some(norm) => norm.forward(&q, mode),
            None => q,
        }
    }

    fn as_keys<Z: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<K>, Model<M>), E>,
        rows: &AnyTensor<E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, KV, Key<K>, HeadDim<D>), E> {
        let k = self.as_values(x, rows);
        match &self.k_norm {
            Some(norm) => norm.forward(&k, mode),
            None => k,
        }
    }

    fn as_values<Z: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<K>, Model<M>), E>,
        rows: &AnyTensor<E>,
    ) -> Tensor<(Batch<Z>, KV, Key<K>, HeadDim<D>), E> {
        let (batch, Seq(size), _) = x.shape();
        let (heads, dim) = self.k.weight.shape().1.parts();
        let v = rows.split_heads(heads.size().get(), dim.size().get());
        Tensor::typed((batch, heads, Key(size), dim), v)
    }

    /// x · (W_Q | W_K | W_V) + (b_Q | b_K | b_V), taken apart again.
    fn fused(&self, x: &AnyTensor<E>, mode: &mut impl Mode) -> [AnyTensor<E>; 3] {
        let (q, k) = (self.q.weight.shape().1.size().get(), self.k.weight.shape().1.size().get());
        let maps = [self.q.read_map(mode), self.k.read_map(mode), self.v.read_map(mode)];
        let fused = self.packing.apply(x, &maps.each_ref().map(ReadMap::lent));
        let [of_q, of_k, of_v] = [self.q.weight.id(), self.k.weight.id(), self.v.weight.id()];
        [(of_q, 0, q), (of_k, q, k), (of_v, q + k, k)].map(|(layer, start, len)| {
            let part = fused.viewed(fused.layout().sliced(2, start, len));
            mode.note(layer, &part);
            part
        })
    }
}
