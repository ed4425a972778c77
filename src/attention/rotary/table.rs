//! The cosines and sines of positions.

use super::{Pairing, RotatedBy, SplitHalf};
use crate::axis::{Axis, Batch, HeadDim, Key, Query, Seq};
use crate::element::{Float, Index};
use crate::error::{Error, Result};
use crate::kernel::index::gather;
use crate::kernel::rotary::{Pairs, rotate};
use crate::ops::checked;
use crate::shape::Shape;
use crate::size::{C, Size, Times};
use crate::tensor::{AnyTensor, Tensor};
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;
use std::ops::Neg;

/// What turns queries and keys at certain positions: the cosine and sine of each position's angles.
///
/// `S` are the positions, `(Seq<L>,)` where all samples have the same ones, or `(Batch<B>, Seq<L>)`.
/// [`Rotary`](super::Rotary) computes tables; [`shared`](RotaryTable::shared) and [`of_samples`](RotaryTable::of_samples)
/// take given ones. `R` and `P` are those of `Rotary`.
///
/// # Examples
/// ```
/// use shapeproof::{Batch, C, HeadDim, Heads, Query, Rotary, RotaryTable, Seq, Tensor};
///
/// // All positions of a context, once; then those of each call.
/// let context: RotaryTable<_, _> = Rotary::<C<4>>::try_new(10_000.0)?.try_at(0, Seq(C::<128>))?;
/// let x = Tensor::<(Batch<C<1>>, Heads<C<2>>, Query<C<3>>, HeadDim<C<4>>)>::ones();
/// let turned = context.try_slice(100, Seq(C::<3>))?.rotate(&x);
///
/// let positions = Tensor::<(Batch<C<1>>, Query<C<3>>), u32>::from([[100, 101, 102]]);
/// assert_eq!(context.try_select(&positions)?.rotate(&x), turned);
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub struct RotaryTable<S, R, P = SplitHalf, E = f32> {
    positions: S,
    /// Over the positions and R/2 pairs, packed or whole rows of it.
    cos: AnyTensor<E>,
    /// Of the same layout.
    sin: AnyTensor<E>,
    marker: PhantomData<fn() -> (R, P)>,
}

/// A rotary table over these positions turns what is over `Positions`: the same ones for all samples,
/// or each sample's own, for an axis of the same number of positions, be it `Seq`, `Query` or `Key`.
///
/// # Compile errors
/// `rotary_table_must_cover_the_positions`: "a rotary table over (Seq<C<4>>,) is not one for
/// (Batch<C<2>>, Query<C<5>>)".
#[diagnostic::on_unimplemented(
    message = "a rotary table over {Self} is not one for {Positions}",
    label = "the positions must be as many, of all samples, `(Seq<L>,)`, or of each, `(Batch<B>, Seq<L>)`"
)]
pub trait CoversPositions<Positions>: Shape {}

macro_rules! covers {
    ($($Position:ident),+) => { $(
        #[diagnostic::do_not_recommend]
        impl<B: Size, L: Size> CoversPositions<(Batch<B>, $Position<L>)> for (Seq<L>,) {}
        #[diagnostic::do_not_recommend]
        impl<B: Size, L: Size> CoversPositions<(Batch<B>, $Position<L>)> for (Batch<B>, Seq<L>) {}
    )+ };
}
covers! { Seq, Query, Key }

impl<S, R, P, E> RotaryTable<S, R, P, E> {
    /// `x` with its features turned; those past `R` stay as they are.
    ///
    /// # Shapes
    /// `x` is over `(Batch<B>, Heads<H> or KvHeads<G>, Query, Key or Seq, HeadDim<D>)`, where `D` is at
    /// least `R`; the result has its shape.
    ///
    /// # Compile errors
    /// `rotary_width_must_be_at_most_the_head_dim`, `rotary_table_must_cover_the_positions`.
    pub fn rotate<B: Size, A: Axis, X: Axis, D: Size>(
        &self,
        x: &Tensor<(Batch<B>, A, X, HeadDim<D>), E>,
    ) -> Tensor<(Batch<B>, A, X, HeadDim<D>), E>
    where
        S: CoversPositions<(Batch<B>, X)>,
        D: RotatedBy<R>,
        P: Pairing,
        E: Float,
    {
        Tensor::typed(x.shape(), self.turn(x.any()))
    }

    /// As `rotate`, without its shape. Someone else has established that the table is one for `x`.
    pub(crate) fn turn(&self, x: &AnyTensor<E>) -> AnyTensor<E>
    where
        P: Pairing,
        E: Float,
    {
        let pairs = if P::ADJACENT { Pairs::Adjacent } else { Pairs::SplitHalf };
        turned(x, [&self.cos, &self.sin], pairs)
    }

    /// `cos` and `sin` are packed, over the positions and R/2 pairs.
    pub(super) fn from_parts(positions: S, cos: AnyTensor<E>, sin: AnyTensor<E>) -> Self {
        RotaryTable { positions, cos, sin, marker: PhantomData }
    }
}

impl<L: Size, R, P, E: Float> RotaryTable<(Seq<L>,), R, P, E> {
    /// A table of given cosines and sines, which all samples share.
    ///
    /// # Compile errors
    /// `rotary_cosines_and_sines_must_have_one_shape`.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Adjacent, Batch, C, HeadDim, Heads, Query, RotaryTable, Tensor};
    ///
    /// // A quarter turn.
    /// let table = RotaryTable::<_, _, Adjacent>::shared(Tensor::from([[0.0]]), Tensor::from([[1.0]]));
    /// let x = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<2>>)>::from([[[[3.0, 4.0]]]]);
    /// assert_eq!(table.rotate(&x).to_vec(), [-4.0, 3.0]);
    /// ```
    pub fn shared<N>(
        cos: Tensor<(Seq<L>, HeadDim<N>), E>,
        sin: Tensor<(Seq<L>, HeadDim<N>), E>,
    ) -> Self
    where
        N: Times<C<2>, Product = R>,
    {
        Self::from_parts((cos.shape().0,), fresh(&cos), fresh(&sin))
    }

    /// The rotation at positions `offset`, `offset + 1`, … of this table. Shares its numbers.
    ///
    /// # Errors
    /// Where the table does not reach so far.
    pub fn try_slice<T: Size>(
        &self,
        offset: usize,
        positions: Seq<T>,
    ) -> Result<RotaryTable<(Seq<T>,), R, P, E>> {
        let (length, held) = (positions.size().get(), self.positions.0.size().get());
        if offset.checked_add(length).is_none_or(|end| end > held) {
            return Err(Error::index(format!(
                "expected positions within a rotary table of {held}, found {length} from {offset} on"
            )));
        }
        let [cos, sin] = [&self.cos, &self.sin]
            .map(|turns| turns.viewed(turns.layout().sliced(0, offset, length)));
        Ok(RotaryTable::from_parts((positions,), cos, sin))
    }

    /// The rotation at positions of their own for each sample, each of them one of this table's.
    ///
    /// # Errors
    /// Where a position lies outside of the table: the first such position and its place.
    pub fn try_select<B: Size, X: Axis, T: Index>(
        &self,
        positions: &Tensor<(Batch<B>, X), T>,
    ) -> Result<RotaryTable<(Batch<B>, Seq<X::Size>), R, P, E>> {
        let rows = checked(positions.any(), self.cos.dims()[0], Seq::<L>::NAME)?;
        let dims = [positions.dims(), &self.cos.dims()[1..]].concat();
        let [cos, sin] = [&self.cos, &self.sin]
            .map(|turns| AnyTensor::from_packed(&dims, gather(turns.view(), 0, &rows)));
        let (batch, axis) = positions.shape();
        Ok(RotaryTable::from_parts((batch, Seq(axis.size())), cos, sin))
    }
}

impl<B: Size, L: Size, R, P, E: Float> RotaryTable<(Batch<B>, Seq<L>), R, P, E> {
    /// A table of given cosines and sines for each sample.
    pub fn of_samples<N>(
        cos: Tensor<(Batch<B>, Seq<L>, HeadDim<N>), E>,
        sin: Tensor<(Batch<B>, Seq<L>, HeadDim<N>), E>,
    ) -> Self
    where
        N: Times<C<2>, Product = R>,
    {
        let (batch, seq, _) = cos.shape();
        Self::from_parts((batch, seq), fresh(&cos), fresh(&sin))
    }
}

/// A copy, so that cosines and sines have one layout wherever they came from.
fn fresh<S: Shape, E: Float>(turns: &Tensor<S, E>) -> AnyTensor<E> {
    AnyTensor::from_packed(turns.dims(), turns.to_vec())
}

impl<S: Copy, R, P, E> Clone for RotaryTable<S, R, P, E>
where
    AnyTensor<E>: Clone,
{
    fn clone(&self) -> Self {
        Self::from_parts(self.positions, self.cos.clone(), self.sin.clone())
    }
}

impl<S: Shape, R, P: Pairing, E: Float> Debug for RotaryTable<S, R, P, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let pairs = self.cos.dims().last().copied().unwrap_or_default();
        write!(f, "RotaryTable {{ {:?}, {pairs} pairs, {} }}", self.positions, P::NAME)
    }
}

/// `x` with its pairs turned by the angles whose cosines and sines are `turns`: two tensors of one layout.
/// The gradient is turned back, by the angles with the other sign.
fn turned<E: Float>(x: &AnyTensor<E>, turns: [&AnyTensor<E>; 2], pairs: Pairs) -> AnyTensor<E> {
    let [batch, heads, len, _] = *x.dims() else { unreachable!("heads have four axes") };
    let [cos, sin] = turns;
    let last = cos.rank() - 1;
    let full = [batch, heads, len, cos.dims()[last]];
    let at: &[usize] = if last == 1 { &[2, 3] } else { &[0, 2, 3] };
    let layout = cos.layout().broadcast(&full, at);
    let data = rotate(x.view(), turns.map(|turns| turns.view().data), &layout, pairs);
    AnyTensor::from_packed(x.dims(), data).recorded_from(x, || {
        let (cos, sin) = (cos.detached(), sin.detached());
        move |g| {
            let back = sin.map_wide(Neg::neg);
            turned(g, [&cos.copied(), &back], pairs)
        }
    })
}
