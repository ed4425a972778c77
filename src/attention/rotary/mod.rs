//! Rotary position embedding.

mod scaling;
mod table;
mod width;

pub use scaling::RotaryScaling;
pub use table::{CoversPositions, RotaryTable};
pub use width::{Adjacent, Pairing, RotaryWidth, RotatedBy, SplitHalf};

use crate::axis::{Axis, Batch, Seq};
use crate::element::{Float, Index};
use crate::error::{Error, Result};
use crate::kernel::layout::checked_count;
use crate::ops::index_of;
use crate::size::Size;
use crate::tensor::{AnyTensor, Tensor};
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

/// Rotary position embedding: pair i of a head's features turns by the angle p · θᵢ at position p,
/// θᵢ = base^(−2i/R).
///
/// `R` is the number of features that turn: a head's width, or fewer, where the others stay as they
/// are. `P` says which features are a pair, [`SplitHalf`] or [`Adjacent`]: it belongs to the weights,
/// and the wrong one goes unnoticed, so it is part of the type. What turns queries and keys is the
/// [`RotaryTable`] of their positions.
///
/// # Numerics
/// Angles, cosines and sines are computed in f64 and rounded once, so positions of millions cost no
/// digits.
///
/// # Compile errors
/// `rotary_width_must_be_even`, `annotated_rotary_width_must_be_even`,
/// `rotary_width_in_generic_code_needs_its_bound`.
///
/// # Examples
/// ```
/// use shapeproof::{Adjacent, Batch, C, HeadDim, Heads, Query, Rotary, Seq, Tensor};
///
/// let x = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<4>>)>::from([[[[
///     1.0, 0.0, 0.0, 0.0,
/// ]]]]);
/// let by_half = Rotary::<C<4>>::try_new(10_000.0)?.try_at(1, Seq(C::<1>))?;
/// let expected = Tensor::from([[[[1f32.cos(), 0.0, 1f32.sin(), 0.0]]]]);
/// assert!(by_half.rotate(&x).all_close(&expected, 0.0, 1e-6));
///
/// let by_neighbour = Rotary::<C<4>, Adjacent>::try_new(10_000.0)?.try_at(1, Seq(C::<1>))?;
/// let expected = Tensor::from([[[[1f32.cos(), 1f32.sin(), 0.0, 0.0]]]]);
/// assert!(by_neighbour.rotate(&x).all_close(&expected, 0.0, 1e-6));
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, section 3.2.2: R is
/// its d, and its pairs are [`Adjacent`].
pub struct Rotary<R, P = SplitHalf> {
    /// θ of each pair.
    frequencies: Vec<f64>,
    /// What cosines and sines are multiplied by.
    attention_factor: f64,
    marker: PhantomData<fn() -> (R, P)>,
}

impl<R, P> Rotary<R, P> {
    /// Rotation by the powers of this base, 10 000 in most models.
    ///
    /// # Errors
    /// Where `base` is not a finite number above 0.
    pub fn try_new(base: f64) -> Result<Self>
    where
        R: RotaryWidth,
        P: Pairing,
    {
        Self::try_scaled(base, RotaryScaling::None)
    }

    /// As [`try_new`](Self::try_new), for contexts longer than those that a model was trained on.
    ///
    /// # Errors
    /// Where `base` or a number of `scaling` is not finite or not above 0, or they give frequencies
    /// that are not finite.
    pub fn try_scaled(base: f64, scaling: RotaryScaling) -> Result<Self>
    where
        R: RotaryWidth,
        P: Pairing,
    {
        let (frequencies, attention_factor) = scaling.try_frequencies(R::N, base)?;
        Ok(Rotary { frequencies, attention_factor, marker: PhantomData })
    }

    /// The angle of each pair for one position, in radians.
    pub fn frequencies(&self) -> &[f64] {
        &self.frequencies
    }

    /// What cosines and sines are multiplied by: 1, unless a scaling says otherwise.
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }

    /// The rotation at the positions `offset`, `offset + 1`, …, the same ones for all samples.
    ///
    /// # Errors
    /// Where the last position exceeds `usize::MAX`, or there are more angles than the machine can
    /// count.
    pub fn try_at<L: Size, E: Float>(
        &self,
        offset: usize,
        positions: Seq<L>,
    ) -> Result<RotaryTable<(Seq<L>,), R, P, E>> {
        let length = positions.size().get();
        let Some(end) = offset.checked_add(length) else {
            return Err(Error::size_overflow("+", &offset, &length));
        };
        let [cos, sin] = self.try_turns(&[length], offset..end)?;
        Ok(RotaryTable::from_parts((positions,), cos, sin))
    }

    /// The rotation at positions of their own for each sample.
    ///
    /// # Errors
    /// Where a position is negative: the first such position and its place; where there are more angles
    /// than the machine can count.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, C, HeadDim, Key, KvHeads, Rotary, Tensor};
    ///
    /// let positions = Tensor::<(Batch<C<2>>, Key<C<3>>), usize>::from([[0, 1, 2], [7, 8, 9]]);
    /// let table = Rotary::<C<4>>::try_new(500.0)?.try_at_positions(&positions)?;
    /// let keys = Tensor::<(Batch<C<2>>, KvHeads<C<1>>, Key<C<3>>, HeadDim<C<4>>)>::ones();
    /// assert_eq!(table.rotate(&keys).try_at(&[0, 0, 0, 0])?, 1.0); // position 0 stays
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn try_at_positions<B: Size, X: Axis, T: Index, E: Float>(
        &self,
        positions: &Tensor<(Batch<B>, X), T>,
    ) -> Result<RotaryTable<(Batch<B>, Seq<X::Size>), R, P, E>> {
        let dims = positions.dims();
        let check = |(place, position): (usize, T)| match position.to_index() {
            Some(position) => Ok(position),
            None => Err(Error::index(format!(
                "position {position:?}, at {:?}, is negative",
                index_of(place, dims)
            ))),
        };
        let all: Vec<_> =
            positions.to_vec().into_iter().enumerate().map(check).collect::<Result<_>>()?;
        let [cos, sin] = self.try_turns(dims, all.into_iter())?;
        let (batch, axis) = positions.shape();
        Ok(RotaryTable::from_parts((batch, Seq(axis.size())), cos, sin))
    }

    /// The cosines and sines of all pairs at each position, over `dims` and the pairs.
    fn try_turns<E: Float>(
        &self,
        dims: &[usize],
        positions: impl Iterator<Item = usize> + Clone,
    ) -> Result<[AnyTensor<E>; 2]> {
        let dims = [dims, &[self.frequencies.len()]].concat();
        let count = checked_count(&dims).ok_or_else(|| Error::count_overflow(&dims))?;
        Ok([f64::cos, f64::sin].map(|turn| {
            let mut turns = Vec::with_capacity(count);
            for position in positions.clone() {
                #[allow(clippy::cast_precision_loss, reason = "positions below 2⁵³ are exact")]
                let angle = |frequency: &f64| position as f64 * frequency;
                let turn = |angle: f64| E::from_f64(turn(angle) * self.attention_factor);
                turns.extend(self.frequencies.iter().map(angle).map(turn));
            }
            AnyTensor::from_packed(&dims, turns)
        }))
    }
}

impl<R, P> Clone for Rotary<R, P> {
    fn clone(&self) -> Self {
        Rotary { frequencies: self.frequencies.clone(), ..*self }
    }
}

impl<R: RotaryWidth, P: Pairing> Debug for Rotary<R, P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotary")
            .field("width", &R::N)
            .field("pairing", &P::NAME)
            .field("frequencies", &self.frequencies)
            .field("attention_factor", &self.attention_factor)
            .finish()
    }
}
