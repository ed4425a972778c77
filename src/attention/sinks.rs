//! Attention sinks.

use super::MaskParts;
use super::mask::{MaskFor, Scores, and};
use crate::axis::Heads;
use crate::element::Float;
use crate::size::Size;
use crate::tensor::Tensor;

/// A score for each head that takes part in the softmax without a key: what it weighs goes nowhere, so a
/// head may attend to nothing. Combined with masks by `&`.
///
/// weightⱼ = exp(scoreⱼ) / (exp(sink) + Σ exp(score)). A sink is not scaled, capped or masked; a query
/// that sees no key gets 0. Several sinks of one mask all take part.
///
/// ```
/// use shapeproof::{scaled_dot_product_attention, Batch, HeadDim, Heads, Key, Query, Sinks, Tensor, C};
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<3>>, HeadDim<C<1>>)>::ones();
/// let sinks = Sinks(Tensor::<(Heads<C<1>>,)>::zeros());
/// let y = scaled_dot_product_attention(&q, &k, &k, sinks);
/// assert_eq!(y.to_vec(), [0.75]); // three keys and the sink weigh the same
/// ```
///
/// # References
/// Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023; Agarwal et al.,
/// "gpt-oss-120b & gpt-oss-20b Model Card", 2025, section 2.2.
#[derive(Clone)]
pub struct Sinks<H, E = f32>(
    /// A score for each head.
    pub Tensor<(Heads<H>,), E>,
);

#[diagnostic::do_not_recommend]
impl<B, H: Size, Q, K, E: Float> MaskFor<Scores<B, H, Q, K>, E> for Sinks<H, E> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        parts.sinks.push(self.0.erase());
    }
}

and! {
    [H, E,] Sinks<H, E>;
}
