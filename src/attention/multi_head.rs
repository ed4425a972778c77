//! The multi-head attention layer.

use super::backward::attend_together;
use super::scaled::{Attention, scores};
use super::{AttentionBias, Explanation, MaskFor, MaskParts};
use crate::axis::{Axis, Batch, Heads, Key, Model, Query, Seq};
use crate::element::Float;
use crate::kernel::multi_head::self_attention;
use crate::nn::{
    AnyParameter, Bias, Dropout, Linear, Map, Mode, Module, Packing, Parameter, ReadMap,
    is_recorded, is_tracing,
};
use crate::parameters;
use crate::size::{DivisibleBy, Size, Static};
use crate::tensor::{AnyTensor, Generator, Tensor};
use std::marker::PhantomData;

/// Multi-head attention: MultiHead(Q, K, V) = Concat(head₁, …, head_H) · W_O + b_O,
/// headₕ = Attention(Q · W_Qʰ + b_Qʰ, K · W_Kʰ + b_Kʰ, V · W_Vʰ + b_Vʰ).
///
/// `M` is the model width (d_model), `H` the number of heads (h), `KM` and `VM` the widths of what
/// keys and values are projected from, `B` which projections have a bias ([`AttentionBias`]). One
/// head is M/H wide (d_k = d_v). That H divides M is a bound of every constructor, so a layer that
/// exists obeys it.
///
/// Head h has features h · M/H to (h + 1) · M/H − 1 of its projections.
///
/// # Shapes
/// [`forward`](Self::forward): `(Batch, Seq<S>, Model<M>)` in and out.
/// [`cross`](Self::cross): queries from `(Batch, Seq<Q>, Model<M>)`, keys from `(Batch, Seq<K>,
/// Model<KM>)`, values from `(Batch, Seq<K>, Model<VM>)`; the result is over `(Batch, Seq<Q>,
/// Model<M>)`.
///
/// # Numerics
/// Scores are divided by √(M/H); see [`scaled_dot_product_attention`]. A query that sees no key
/// contributes 0 before the output projection.
///
/// [`scaled_dot_product_attention`]: crate::scaled_dot_product_attention
///
/// # Compile errors
/// `heads_must_divide_the_model_width`: "C<512> cannot be divided evenly by C<7>".
///
/// # Examples
/// ```
/// use shapeproof::{Batch, Causal, Generator, Infer, Model, MultiHeadAttention, Seq, Tensor, C};
///
/// let mut generator = Generator::seeded(7);
/// let attention = MultiHeadAttention::<C<64>, C<4>>::xavier(&mut generator);
/// let x = Tensor::<(Batch<C<2>>, Seq<C<5>>, Model<C<64>>)>::normal(0.0, 1.0, &mut generator);
/// let y = attention.forward(&x, Causal, &mut Infer);
/// assert_eq!(y.shape(), x.shape());
/// ```
///
/// # References
/// Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2.
pub struct MultiHeadAttention<M, H, KM = M, VM = KM, B: AttentionBias = Bias, E = f32> {
    /// W_Q and b_Q.
    pub q: Linear<Model<M>, Model<M>, B::Query, E>,
    /// W_K and b_K.
    pub k: Linear<Model<KM>, Model<M>, B::Key, E>,
    /// W_V and b_V.
    pub v: Linear<Model<VM>, Model<M>, B::Value, E>,
    /// W_O and b_O.
    pub out: Linear<Model<M>, Model<M>, B::Out, E>,
    /// One more key, which every query sees, if there is one.
    pub bias_k: Option<Parameter<(Model<M>,), E>>,
    /// And its value.
    pub bias_v: Option<Parameter<(Model<M>,), E>>,
    /// Whether there is one more key of zeros, with a value of zeros: it lets a head attend to nothing.
    pub zero_attention: bool,
    /// How scores become weights.
    pub attention: Attention,
    /// On the weights, in training.
    pub dropout: Dropout,
    heads: PhantomData<fn() -> H>,
    packing: Packing<E>,
}

#[diagnostic::do_not_recommend]
impl<M: Size, H, KM: Size, VM: Size, B: AttentionBias, E: Float> Module
    for MultiHeadAttention<M, H, KM, VM, B, E>
{
    parameters!(q as "q_proj", k as "k_proj", v as "v_proj", out as "out_proj", bias_k, bias_v);
}

/// Keys and values are projected from the model width `M`, as self attention needs it.
///
/// # Compile errors
/// `self_attention_must_have_one_width`: "self attention over C<4> has no keys and values of (C<6>, C<6>)".
#[diagnostic::on_unimplemented(
    message = "self attention over {M} has no keys and values of {Self}",
    label = "the widths of keys and values must be the model width; `cross` takes others"
)]
pub trait SelfWidths<M> {}

#[diagnostic::do_not_recommend]
impl<M> SelfWidths<M> for (M, M) {}

/// An output, and the attention weights of each head.
type WithWeights<B, H, Q, K, M, E> =
    (Tensor<(Batch<B>, Seq<Q>, Model<M>), E>, Tensor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E>);

impl<M, H, KM, VM, B: AttentionBias, E: Float> MultiHeadAttention<M, H, KM, VM, B, E> {
    /// A layer of zeros, to be loaded.
    pub fn zeros() -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
        KM: Static,
        VM: Static,
    {
        Self::of(Linear::zeros(), Linear::zeros(), Linear::zeros(), Linear::zeros())
    }

    /// A layer whose weights are drawn by Xavier's rule, each of q, k, v and out with its own fans,
    /// and whose biases are 0.
    pub fn xavier(generator: &mut Generator) -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
        KM: Static,
        VM: Static,
    {
        let (q, k) = (Linear::xavier(generator), Linear::xavier(generator));
        let (v, out) = (Linear::xavier(generator), Linear::xavier(generator));
        Self::of(q, k, v, out)
    }

    /// A layer of these projections.
    pub fn of(
        q: Linear<Model<M>, Model<M>, B::Query, E>,
        k: Linear<Model<KM>, Model<M>, B::Key, E>,
        v: Linear<Model<VM>, Model<M>, B::Value, E>,
        out: Linear<Model<M>, Model<M>, B::Out, E>,
    ) -> Self
    where
        M: DivisibleBy<H>,
        H: Static,
    {
        MultiHeadAttention {
            q,
            k,
            v,
            out,
            bias_k: None,
            bias_v: None,
            zero_attention: false,
            attention: Attention::new(),
            dropout: Dropout::NONE,
            heads: PhantomData,
            packing: Packing::default(),
        }
    }

    /// With these settings in the place of the usual ones: another scale, a cap.
    pub fn with_attention(self, attention: Attention) -> Self {
        MultiHeadAttention { attention, ..self }
    }

    /// With dropout on the weights, in training.
    pub fn with_dropout(self, dropout: Dropout) -> Self {
        MultiHeadAttention { dropout, ..self }
    }

    /// What each step from the projections to the merged heads reads, makes and costs, without
    /// running any of it.
    ///
    /// ```
    /// use shapeproof::{Batch, MultiHeadAttention, Seq, C};
    ///
    /// let attention = MultiHeadAttention::<C<512>, C<8>>::zeros();
    /// let steps = attention.explain(Batch(C::<32>), Seq(C::<64>), Seq(C::<64>));
    /// println!("{steps}");
    /// assert_eq!(steps.flops(), 4_568_645_632);
    /// ```
    pub fn explain<Z: Size, Q: Size, K: Size>(
        &self,
        batch: Batch<Z>,
        query: Seq<Q>,
        key: Seq<K>,
    ) -> Explanation
    where
        M: Static,
        H: Static,
        KM: Static,
        VM: Static,
    {
        let [z, q, k] = [batch.size().get(), query.size().get(), key.size().get()];
        Explanation::of_multi_head([z, q, k], [M::N, H::N, KM::N, VM::N], size_of::<E>())
    }

    /// Cross attention: queries from `x`, keys from `key`, values from `value`.
    ///
    /// # Compile errors
    /// `cross_keys_and_values_must_have_one_length`, `cross_value_must_fit_its_width`.
    pub fn cross<Z: Size, Q: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<Q>, Model<M>), E>,
        key: &Tensor<(Batch<Z>, Seq<K>, Model<KM>), E>,
        value: &Tensor<(Batch<Z>, Seq<K>, Model<VM>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<Q>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<Q>, Model<M>), E>
    where
        M: Static,
        H: Static,
        KM: Static,
        VM: Static,
    {
        let parts = self.project(x, key, value, mode);
        let mask = MaskParts::of(&mask, scores(&parts[0], &parts[1]));
        let y = self.attend(parts, mask, mode);
        self.project_out(x, y, mode)
    }

    /// As [`cross`](Self::cross), with the attention weights of each head.
    pub fn cross_with_weights<Z: Size, Q: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<Q>, Model<M>), E>,
        key: &Tensor<(Batch<Z>, Seq<K>, Model<KM>), E>,
        value: &Tensor<(Batch<Z>, Seq<K>, Model<VM>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<Q>, Key<K>), E>,
        mode: &mut impl Mode,
    ) -> WithWeights<Z, H, Q, K, M, E>
    where
        M: Static,
        H: Static,
        KM: Static,
        VM: Static,
    {
        let parts = self.project(x, key, value, mode);
        let mask = MaskParts::of(&mask, scores(&parts[0], &parts[1]));
        let (y, weights) = self.attend_with_weights(parts, mask, mode);
        let shape = (x.shape().0, Heads(H::default()), Query(x.shape().1.0), Key(key.shape().1.0));
        (self.project_out(x, y, mode), Tensor::typed(shape, weights))
    }

    /// Self attention: queries, keys and values from `x`, in one matrix product.
    ///
    /// # Compile errors
    /// `attention_must_fit_the_width`, `swapped_axes_of_equal_size`.
    pub fn forward<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<S>, Model<M>), E>
    where
        M: Static,
        H: Static,
        KM: Static,
        VM: Static,
        (KM, VM): SelfWidths<M>,
    {
        let maps = self.maps(mode);
        let maps = maps.each_ref().map(ReadMap::lent);
        if self.extra_keys() > 0 || is_tracing(mode) {
            let parts = self.by_head_of(x, &maps, mode);
            let mask = MaskParts::of(&mask, scores(&parts[0], &parts[1]));
            let y = self.attend(parts, mask, mode);
            return self.project_out(x, y, mode);
        }
        let dims = x.any().dims();
        let mask = MaskParts::of(&mask, [dims[0], H::N, dims[1], dims[1]]);
        if is_recorded(x.any(), &maps) || mask.inputs().any(AnyTensor::is_recorded) {
            let attention = self.attention.dropout(self.dropout, mode);
            let together = self.packing.apply(x.any(), &maps);
            return self.project_out(x, attend_together(&attention, &together, H::N, &mask), mode);
        }
        let projections = [self.packing.of(&maps), self.out.packed(mode)];
        let attention = self.attention.dropout(self.dropout, mode);
        let settings = attention.settings(M::N / H::N.max(1));
        let [qkv, out] = projections.each_ref().map(AsRef::as_ref);
        let y = self_attention(x.any().view(), H::N, [qkv, out], &settings, &mask.lent());
        Tensor::typed(x.shape(), AnyTensor::from_packed(dims, y))
    }

    /// As [`forward`](Self::forward), with the attention weights of each head.
    pub fn forward_with_weights<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        mask: impl MaskFor<(Batch<Z>, Heads<H>, Query<S>, Key<S>), E>,
        mode: &mut impl Mode,
    ) -> WithWeights<Z, H, S, S, M, E>
    where
        M: Static,
        H: Static,
        KM: Static,
        VM: Static,
        (KM, VM): SelfWidths<M>,
    {
        let maps = self.maps(mode);
        let parts = self.by_head_of(x, &maps.each_ref().map(ReadMap::lent), mode);
        let mask = MaskParts::of(&mask, scores(&parts[0], &parts[1]));
        let (y, weights) = self.attend_with_weights(parts, mask, mode);
        let (batch, Seq(size), _) = x.shape();
        let shape = (batch, Heads(H::default()), Query(size), Key(size));
        (self.project_out(x, y, mode), Tensor::typed(shape, weights))
    }
}

impl<M: Static, H: Static, KM: Static, VM: Static, B: AttentionBias, E: Float>
    MultiHeadAttention<M, H, KM, VM, B, E>
{
    /// Queries, keys and values by head.
    fn project<Z: Size, Q: Size, K: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<Q>, Model<M>), E>,
        key: &Tensor<(Batch<Z>, Seq<K>, Model<KM>), E>,
        value: &Tensor<(Batch<Z>, Seq<K>, Model<VM>), E>,
        mode: &mut impl Mode,
    ) -> [AnyTensor<E>; 3] {
        let q = self.q.forward(x, mode);
        let (k, v) = (self.k.forward(key, mode), self.v.forward(value, mode));
        [q.any(), k.any(), v.any()].map(by_head::<H, E>)
    }

    /// Queries, keys and values of the same activations by head, in one product of these maps.
    fn by_head_of<Z: Size, S: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<S>, Model<M>), E>,
        maps: &[Map<E>; 3],
        mode: &mut impl Mode,
    ) -> [AnyTensor<E>; 3] {
        let fused = self.packing.apply(x.any(), maps);
        let width = M::N;
        let [of_q, of_k, of_v] = [self.q.weight.id(), self.k.weight.id(), self.v.weight.id()];
        [(of_q, 0), (of_k, 1), (of_v, 2)].map(|(layer, i)| {
            let part = fused.viewed(fused.layout().sliced(2, i * width, width));
            mode.note(layer, &part);
            by_head::<H, E>(&part)
        })
    }

    /// The heads' outputs.
    pub(super) fn attend(
        &self,
        parts: [AnyTensor<E>; 3],
        mask: MaskParts<E>,
        mode: &mut impl Mode,
    ) -> AnyTensor<E> {
        let attention = self.attention.dropout(self.dropout, mode);
        let ([q, k, v], mask) = self.with_extra_keys(parts, mask, mode);
        attention.run(&q, &k, &v, &mask)
    }

    /// The heads' outputs, and the weights of the keys that are not extra.
    fn attend_with_weights(
        &self,
        parts: [AnyTensor<E>; 3],
        mask: MaskParts<E>,
        mode: &mut impl Mode,
    ) -> (AnyTensor<E>, AnyTensor<E>) {
        let (attention, keys) = (self.attention.dropout(self.dropout, mode), parts[1].dims()[2]);
        let ([q, k, v], mask) = self.with_extra_keys(parts, mask, mode);
        let (y, weights) = attention.run_with_weights(&q, &k, &v, &mask);
        let layout = weights.layout().sliced(3, mask.extra, keys);
        (y, weights.viewed(layout))
    }

    /// The output projection of the merged heads of `y`.
    pub(super) fn project_out<Z: Size, Q: Size>(
        &self,
        x: &Tensor<(Batch<Z>, Seq<Q>, Model<M>), E>,
        y: AnyTensor<E>,
        mode: &mut impl Mode,
    ) -> Tensor<(Batch<Z>, Seq<Q>, Model<M>), E> {
        let merged = Tensor::typed(x.shape(), y.merge_heads());
        self.out.forward(&merged, mode)
    }

    /// The weights and biases of the three projections, read in this mode.
    fn maps(&self, mode: &mut impl Mode) -> [ReadMap<E>; 3] {
        [self.q.read_map(mode), self.k.read_map(mode), self.v.read_map(mode)]
    }
}

/// (batch, positions, width) as (batch, heads, positions, width / heads). Moves no data.
pub(super) fn by_head<H: Static, E: Float>(x: &AnyTensor<E>) -> AnyTensor<E> {
    // That the heads divide the width, the layer's constructor has proven.
    let width = x.dims()[2];
    x.split_heads(H::N, width / H::N)
}
