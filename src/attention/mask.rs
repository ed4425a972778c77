//! Masks: what may be seen.

use super::MaskParts;
use crate::axis::{Batch, Heads, Key, Query};
use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::size::Size;
use crate::tensor::{AnyTensor, Tensor};

/// What says which keys each query may see, for attention scores over `Scores`.
///
/// There is [`NoMask`]; [`Causal`], [`CausalFromStart`], [`Prefix`] and [`SlidingWindow`]; [`BlockMask`]
/// and [`Segments`]; a boolean tensor over some of the axes Batch, Heads, Query and Key, Key among them.
/// What is added to the scores enters here too: [`ScoreBias`], [`Alibi`], [`DistanceBias`], [`ScoreFn`],
/// and [`Sinks`]. And there is `&` of any of them. In a boolean mask `true` means: may be seen
/// ([`Mask::hide`] makes one from the other meaning). Axes that a mask lacks repeat: `(Batch, Key)` is key
/// padding, `(Query, Key)` a pair mask.
///
/// [`Causal`]: crate::Causal
/// [`CausalFromStart`]: crate::CausalFromStart
/// [`Prefix`]: crate::Prefix
/// [`SlidingWindow`]: crate::SlidingWindow
/// [`BlockMask`]: crate::BlockMask
/// [`Segments`]: crate::Segments
/// [`Alibi`]: crate::Alibi
/// [`DistanceBias`]: crate::DistanceBias
/// [`ScoreFn`]: crate::ScoreFn
/// [`Sinks`]: crate::Sinks
///
/// A query that may see no key gets the output 0 and weights 0, never NaN; what a hidden key or value
/// holds, be it NaN, reaches nothing.
///
/// # Compile errors
/// `mask_must_cover_query_by_key`, `mask_must_be_boolean`.
#[diagnostic::on_unimplemented(
    message = "{Self} is no mask for scores over {Scores}",
    label = "a mask names Key and some of Batch, Heads and Query, with the sizes of the scores, and holds booleans; numbers are a `ScoreBias`, no mask is `NoMask`"
)]
pub trait MaskFor<Scores, E = f32> {
    /// Adds what this mask says to `parts`.
    #[doc(hidden)]
    fn add_to(&self, parts: &mut MaskParts<E>);
}

/// The axes of attention scores. (Short, because rustc shows the headers of impls in its messages.)
pub(super) type Scores<B, H, Q, K> = (Batch<B>, Heads<H>, Query<Q>, Key<K>);

/// Every key may be seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMask;

/// Both masks at once: what both show may be seen. Written `a & b`.
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

impl<A, B> And<A, B> {
    pub(super) fn of(a: A, b: B) -> Self {
        And(a, b)
    }
}

/// Numbers added to the scaled scores, over some of the axes Batch, Heads, Query and Key. −∞ hides,
/// exactly as a mask does.
///
/// ```
/// use shapeproof::{Batch, Infer, Key, Model, MultiHeadAttention, Query, ScoreBias, Seq, Tensor, C};
///
/// let near = Tensor::<(Query<C<3>>, Key<C<3>>)>::from_fn(|at| -(at[0].abs_diff(at[1]) as f32));
/// let attention = MultiHeadAttention::<C<4>, C<2>>::zeros();
/// let x = Tensor::<(Batch<C<1>>, Seq<C<3>>, Model<C<4>>)>::ones();
/// let (_, weights) = attention.forward_with_weights(&x, ScoreBias(near), &mut Infer);
/// assert!(weights.try_at(&[0, 0, 0, 0])? > weights.try_at(&[0, 0, 0, 2])?);
/// # Ok::<(), shapeproof::Error>(())
/// ```
#[derive(Clone)]
pub struct ScoreBias<S, E = f32>(
    /// What is added.
    pub Tensor<S, E>,
);

/// The two meanings that boolean masks have elsewhere, by name.
///
/// ```
/// use shapeproof::{Key, Mask, Tensor, C};
///
/// let flags = Tensor::<(Key<C<3>>,), bool>::from([true, true, false]);
/// assert_eq!(Mask::keep(&flags).to_vec(), [true, true, false]);
/// assert_eq!(Mask::hide(&flags).to_vec(), [false, false, true]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mask;

impl Mask {
    /// `true` means: may be seen. This is what every boolean mask means here.
    pub fn keep<S: Shape>(seen: &Tensor<S, bool>) -> Tensor<S, bool> {
        seen.clone()
    }

    /// `true` means: is hidden, as PyTorch's `MultiheadAttention` has it.
    pub fn hide<S: Shape>(hidden: &Tensor<S, bool>) -> Tensor<S, bool> {
        hidden.not()
    }

    /// Key padding: of each sample, the first keys, as many as its length says.
    ///
    /// # Errors
    /// Where a length is greater than the axis's size.
    ///
    /// ```
    /// use shapeproof::{Batch, Key, Mask, Tensor, C};
    ///
    /// let lengths = Tensor::<(Batch<C<2>>,), usize>::from([3, 1]);
    /// let mask = Mask::try_lengths(&lengths, Key(C::<3>))?;
    /// assert_eq!(mask.to_vec(), [true, true, true, true, false, false]);
    ///
    /// let error = Mask::try_lengths(&lengths, Key(C::<2>)).unwrap_err();
    /// assert_eq!(error.to_string(), "expected lengths of at most Key 2, found 3, of sample 0");
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn try_lengths<B: Size, K: Size>(
        lengths: &Tensor<(Batch<B>,), usize>,
        keys: Key<K>,
    ) -> Result<Tensor<(Batch<B>, Key<K>), bool>> {
        let (by_sample, most) = (lengths.to_vec(), keys.0.get());
        if let Some(sample) = by_sample.iter().position(|&length| length > most) {
            let found = by_sample[sample];
            return Err(Error::shape(format!(
                "expected lengths of at most Key {most}, found {found}, of sample {sample}"
            )));
        }
        Ok(Tensor::from_fn_in((lengths.shape().0, keys), |at| at[1] < by_sample[at[0]]))
    }
}

#[diagnostic::do_not_recommend]
impl<Scores, E> MaskFor<Scores, E> for NoMask {
    fn add_to(&self, _: &mut MaskParts<E>) {}
}

#[diagnostic::do_not_recommend]
impl<Scores, E, A: MaskFor<Scores, E>, B: MaskFor<Scores, E>> MaskFor<Scores, E> for And<A, B> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        self.0.add_to(parts);
        self.1.add_to(parts);
    }
}

#[diagnostic::do_not_recommend]
impl<Scores, E, A: MaskFor<Scores, E> + ?Sized> MaskFor<Scores, E> for &A {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        (**self).add_to(parts);
    }
}

// The subsets of the scores' axes that a tensor may have, each with its places. Concrete names, so
// that generic code needs no marker.
macro_rules! mask_tensors {
    ($(($($Axis:ident<$N:ident> $at:literal),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<B: Size, H: Size, Q: Size, K: Size, E: Float>
            MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E> for Tensor<($($Axis<$N>,)*), bool>
        {
            fn add_to(&self, parts: &mut MaskParts<E>) {
                let keep = stretched(self.any(), parts, &[$($at),*]);
                parts.keep.push(keep);
            }
        }
        #[diagnostic::do_not_recommend]
        impl<B: Size, H: Size, Q: Size, K: Size, E: Float>
            MaskFor<(Batch<B>, Heads<H>, Query<Q>, Key<K>), E> for ScoreBias<($($Axis<$N>,)*), E>
        {
            fn add_to(&self, parts: &mut MaskParts<E>) {
                let bias = stretched(self.0.any(), parts, &[$($at),*]);
                parts.bias.push(bias);
            }
        }
    )* };
}
mask_tensors! {
    (Key<K> 3)
    (Batch<B> 0, Key<K> 3)
    (Heads<H> 1, Key<K> 3)
    (Query<Q> 2, Key<K> 3)
    (Batch<B> 0, Heads<H> 1, Key<K> 3)
    (Batch<B> 0, Query<Q> 2, Key<K> 3)
    (Heads<H> 1, Query<Q> 2, Key<K> 3)
    (Batch<B> 0, Heads<H> 1, Query<Q> 2, Key<K> 3)
}

/// The tensor over all axes of the scores, repeated along those that it lacks.
fn stretched<T: Element, E: Float>(
    tensor: &AnyTensor<T>,
    parts: &MaskParts<E>,
    at: &[usize],
) -> AnyTensor<T> {
    let scores = parts.scores();
    // A mask of a user's own may have handed on scores of other sizes.
    let fits = at.iter().zip(tensor.dims()).all(|(&at, &n)| scores[at] == n);
    assert!(fits, "a mask of sizes {:?} for scores of sizes {scores:?}", tensor.dims());
    tensor.viewed(tensor.layout().broadcast(scores, at))
}

/// `a & b` for masks.
macro_rules! and {
    ($([$($generics:tt)*] $Mask:ty;)+) => { $(
        impl<$($generics)* R> std::ops::BitAnd<R> for $Mask {
            type Output = $crate::attention::And<Self, R>;
            fn bitand(self, right: R) -> $crate::attention::And<Self, R> {
                $crate::attention::And::of(self, right)
            }
        }
    )+ };
}
pub(super) use and;

and! {
    [] NoMask;
    [A, B,] And<A, B>;
    [S, E,] ScoreBias<S, E>;
    [S, E,] &ScoreBias<S, E>;
    [S,] Tensor<S, bool>;
    [S,] &Tensor<S, bool>;
}
