//! A score bias by a function of one's own.

use super::mask::{MaskFor, Scores, and};
use super::parts::{FillFn, MaskParts};
use crate::element::Float;
use crate::kernel::attention::ScoreBlock;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// Adds to the scores what a function writes, one block of (head, queries, keys) at a time: the bias
/// never exists as a whole. −∞ hides, as a mask does.
///
/// The function gets a [`ScoreBlock`] full of zeros; it is called from many threads, for blocks of any
/// sizes in any order, and should depend on the positions alone. Blocks that masks hide whole are not
/// asked for.
///
/// ```
/// use shapeproof::{
///     scaled_dot_product_attention, Batch, HeadDim, Heads, Key, Query, ScoreFn, Tensor, C,
/// };
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<2>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<2>>, HeadDim<C<1>>)>::ones();
/// let v = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<2>>, HeadDim<C<1>>)>::from([[[[1.0], [4.0]]]]);
/// let oneself_twice = ScoreFn::new(|block| {
///     block.fill(|query, key| if query == key { 2.0_f32.ln() } else { 0.0 });
/// });
/// let y = scaled_dot_product_attention(&q, &k, &v, oneself_twice);
/// assert!(y.to_vec().iter().zip([2.0, 3.0]).all(|(y, exact)| (y - exact).abs() < 1e-6));
/// ```
#[derive(Clone)]
pub struct ScoreFn<E = f32>(Arc<FillFn<E>>);

impl<E: Float> ScoreFn<E> {
    /// The bias that `fill` writes.
    pub fn new(fill: impl Fn(&mut ScoreBlock<'_, E>) + Send + Sync + 'static) -> Self {
        ScoreFn(Arc::new(fill))
    }
}

impl<E> Debug for ScoreFn<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("ScoreFn")
    }
}

#[diagnostic::do_not_recommend]
impl<B, H, Q, K, E: Float> MaskFor<Scores<B, H, Q, K>, E> for ScoreFn<E> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        parts.fills.push(self.0.clone());
    }
}

and! {
    [E,] ScoreFn<E>;
}
