//! Masks around the diagonal: causal, with a prefix, sliding windows.

use super::mask::{MaskFor, Scores, and};
use super::parts::{BandOf, MaskParts, Start};
use crate::axis::Batch;
use crate::element::Float;
use crate::error::{Error, Result};
use crate::kernel::attention::Diagonal;
use crate::size::{Size, WindowSize};
use crate::tensor::Tensor;
use std::sync::Arc;

/// Query i of Q sees keys up to i + (K − Q): aligned to the END, so that the last query sees every
/// key, also where cached keys make K larger than Q. With more queries than keys, the first Q − K see
/// nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Causal;

/// Query i sees keys up to i: aligned to the START. For K = Q it is the same as [`Causal`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CausalFromStart;

/// Every query sees the first keys, this many, and beyond them what [`Causal`] shows: bidirectional
/// over a prefix, causal after.
#[derive(Clone, Copy, Debug)]
pub struct Prefix(pub usize);

/// Each query sees the keys near its own position: W of them, its own among them.
///
/// Query i of Q stands at the key i + (K − Q), aligned to the END as [`Causal`] is;
/// [`from_start`](Self::from_start) and [`at`](Self::at) say otherwise. Keys beyond the
/// window are not computed: time and memory grow with Q · W.
///
/// # Compile errors
/// `window_must_not_be_zero`: "C<0> is no window: …".
///
/// # Examples
/// ```
/// use shapeproof::{scaled_dot_product_attention, Batch, HeadDim, Heads, Key, Query, SlidingWindow, Tensor, C};
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<4>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<4>>, HeadDim<C<1>>)>::ones();
/// let v = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<4>>, HeadDim<C<1>>)>::from([[[
///     [2.0], [4.0], [6.0], [8.0],
/// ]]]);
/// let y = scaled_dot_product_attention(&q, &k, &v, SlidingWindow::causal::<C<2>>());
/// assert_eq!(y.to_vec(), [2.0, 3.0, 5.0, 7.0]);
/// let y = scaled_dot_product_attention(&q, &k, &v, SlidingWindow::two_sided::<C<2>>());
/// assert_eq!(y.to_vec(), [3.0, 4.0, 6.0, 7.0]);
/// ```
///
/// # References
/// Beltagy et al., "Longformer: The Long-Document Transformer", 2020, section 3.1, whose w is
/// 2 · W − 1 where the window has two sides.
#[derive(Clone, Copy, Debug)]
pub struct SlidingWindow {
    behind: usize,
    ahead: usize,
    global: usize,
}

impl SlidingWindow {
    /// The last `W` keys up to the query's own, that one among them.
    pub fn causal<W: WindowSize>() -> Self {
        SlidingWindow { behind: W::N - 1, ahead: 0, global: 0 }
    }

    /// The keys less than `W` positions away, on both sides.
    pub fn two_sided<W: WindowSize>() -> Self {
        SlidingWindow { behind: W::N - 1, ahead: W::N - 1, global: 0 }
    }

    /// As [`causal`](Self::causal), with a number from a configuration.
    ///
    /// # Errors
    /// Where it is 0: the window counts the query's own position.
    pub fn try_causal(window: usize) -> Result<Self> {
        Ok(SlidingWindow { behind: counted(window)?, ahead: 0, global: 0 })
    }

    /// As [`two_sided`](Self::two_sided), with a number from a configuration.
    ///
    /// # Errors
    /// Where it is 0: the window counts the query's own position.
    pub fn try_two_sided(window: usize) -> Result<Self> {
        let beside = counted(window)?;
        Ok(SlidingWindow { behind: beside, ahead: beside, global: 0 })
    }

    /// The query's own position, so many before it and so many after it.
    pub fn beside(behind: usize, ahead: usize) -> Self {
        SlidingWindow { behind, ahead, global: 0 }
    }

    /// The first `tokens` positions are global: every query sees their keys, and their queries see every
    /// key. Of a window that is causal, `& Causal` keeps the latter from looking ahead.
    ///
    /// # References
    /// Beltagy et al., 2020, section 3.1, "global attention".
    pub fn with_global(self, tokens: usize) -> Self {
        SlidingWindow { global: tokens, ..self }
    }
}

fn counted(window: usize) -> Result<usize> {
    window.checked_sub(1).ok_or_else(|| {
        Error::value(
            "expected a window of at least 1, which counts the query's own position, found 0",
        )
    })
}

/// A mask or a bias for this number of heads and these elements that depends on the positions of queries.
#[doc(hidden)]
pub trait Positioned<H, E> {
    /// Adds what this says of queries the first of which stands at `start`.
    fn add_at(&self, start: Start, parts: &mut MaskParts<E>);
}

/// A mask whose query i stands at key i; made by `from_start` of [`Causal`] and its kin.
#[derive(Clone, Copy, Debug)]
pub struct FromStart<M>(M);

/// A mask with a position of the first query for each sample; made by `at` of [`Causal`] and its kin.
#[derive(Clone, Debug)]
pub struct AtStarts<B, M> {
    mask: M,
    starts: Arc<[isize]>,
    batch: B,
}

impl<B: Size, M> AtStarts<B, M> {
    pub(super) fn of(mask: M, starts: &Tensor<(Batch<B>,), i64>) -> Self {
        AtStarts { mask, starts: positions(starts), batch: starts.shape().0.0 }
    }

    /// The batch that it has a start for.
    pub fn batch(&self) -> Batch<B> {
        Batch(self.batch)
    }
}

/// Where the first query of each sample stands. A position outside of all memory is as far away as one at
/// its end.
pub(super) fn positions<B: Size>(starts: &Tensor<(Batch<B>,), i64>) -> Arc<[isize]> {
    let as_isize = |start: i64| {
        isize::try_from(start).unwrap_or(if start < 0 { isize::MIN } else { isize::MAX })
    };
    starts.to_vec().into_iter().map(as_isize).collect()
}

/// What moves the positions of queries, which are aligned to the END of the keys unless told otherwise.
macro_rules! positioned {
    ($([$($generics:tt)*] $Mask:ty;)+) => { $(
        impl<$($generics)*> $Mask {
            /// With query i at key i: aligned to the START.
            pub fn from_start(self) -> $crate::attention::FromStart<Self> {
                $crate::attention::FromStart::of(self)
            }

            /// With query i of sample b at key `starts[b]` + i. Where caches are filled to different
            /// lengths, the start is the length before this step's keys; padding on the left may move
            /// it below 0.
            pub fn at<B: $crate::Size>(
                self,
                starts: &$crate::Tensor<($crate::Batch<B>,), i64>,
            ) -> $crate::attention::AtStarts<B, Self> {
                $crate::attention::AtStarts::of(self, starts)
            }
        }
    )+ };
}
pub(super) use positioned;

macro_rules! diagonals {
    ($($Mask:ty: |$mask:ident| $diagonal:expr;)+) => { $(
        positioned! { [] $Mask; }
        #[diagnostic::do_not_recommend]
        impl<B, H, Q, K, E: Float> MaskFor<Scores<B, H, Q, K>, E> for $Mask {
            fn add_to(&self, parts: &mut MaskParts<E>) {
                Positioned::<H, E>::add_at(self, Start::end_of(parts), parts);
            }
        }
        #[diagnostic::do_not_recommend]
        impl<H, E: Float> Positioned<H, E> for $Mask {
            fn add_at(&self, start: Start, parts: &mut MaskParts<E>) {
                let $mask = self;
                parts.bands.push(BandOf::Diagonal($diagonal, start));
            }
        }
    )+ };
}
diagonals! {
    Causal: |_mask| Diagonal { ahead: Some(0), ..Diagonal::ALL };
    Prefix: |mask| Diagonal { ahead: Some(0), prefix: mask.0, ..Diagonal::ALL };
    SlidingWindow: |mask| Diagonal {
        behind: Some(mask.behind),
        ahead: Some(mask.ahead),
        prefix: mask.global,
        global: mask.global,
        ..Diagonal::ALL
    };
}

impl<M> FromStart<M> {
    pub(super) fn of(mask: M) -> Self {
        FromStart(mask)
    }
}

#[diagnostic::do_not_recommend]
impl<B, H, Q, K, E: Float> MaskFor<Scores<B, H, Q, K>, E> for CausalFromStart {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        Positioned::<H, E>::add_at(&Causal, Start::same(0), parts);
    }
}

#[diagnostic::do_not_recommend]
impl<B, H, Q, K, E: Float, M: Positioned<H, E>> MaskFor<Scores<B, H, Q, K>, E> for FromStart<M> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        self.0.add_at(Start::same(0), parts);
    }
}

#[diagnostic::do_not_recommend]
impl<B, H, Q, K, E: Float, M: Positioned<H, E>> MaskFor<Scores<B, H, Q, K>, E> for AtStarts<B, M> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        self.mask.add_at(Start::by_sample(&self.starts), parts);
    }
}

and! {
    [] Causal;
    [] CausalFromStart;
    [] Prefix;
    [] SlidingWindow;
    [M,] FromStart<M>;
    [B, M,] AtStarts<B, M>;
}
