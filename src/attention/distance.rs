//! Score biases that depend on the distance from a query to a key: ALiBi, buckets, any table.

use super::diagonal::{Positioned, positioned};
use super::mask::{MaskFor, Scores, and};
use super::parts::{MaskParts, Start};
use crate::axis;
use crate::axis::Heads;
use crate::element::Float;
use crate::nn::{Mode, Module, Parameter};
use crate::parameters;
use crate::shape::FixedSizes;
use crate::size::{Size, Static};
use crate::tensor::{AnyTensor, Tensor};
use std::ops::RangeInclusive;

axis! {
    /// Distances from a query's position to a key: the entries of a table of relative positions.
    Distance,
    /// Ranges of distances that share a learned bias.
    Bucket,
}

/// Attention with linear biases: −slope · |distance| is added to the scores, with a slope for each head.
///
/// Of n heads, a power of two, head h has the slope 2^(−8(h+1)/n); of other numbers, the first have those
/// of the next lower power of two, and the rest every other one of twice that. Nothing is stored but the
/// slopes. Queries are aligned to the END of the keys, as [`Causal`](crate::Causal) is.
///
/// ```
/// use shapeproof::{scaled_dot_product_attention, Alibi, Batch, Causal, HeadDim, Heads, Key, Query, Tensor, C};
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<8>>, Query<C<2>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<8>>, Key<C<2>>, HeadDim<C<1>>)>::ones();
/// let alibi = Alibi::<C<8>>::new();
/// assert_eq!(alibi.slopes().try_at(&[0])?, 0.5);
/// let y = scaled_dot_product_attention(&q, &k, &k, Causal & alibi);
/// assert_eq!(y.shape(), q.shape());
/// # Ok::<(), shapeproof::Error>(())
/// ```
///
/// # References
/// Press et al., "Train Short, Test Long: Attention with Linear Biases Enables Input Length
/// Extrapolation", 2022, section 3; the slopes of other numbers of heads are those of its code.
#[derive(Clone)]
pub struct Alibi<H, E = f32> {
    slopes: Tensor<(Heads<H>,), E>,
}

impl<H: Size, E: Float> Alibi<H, E> {
    /// The paper's slopes.
    pub fn new() -> Self
    where
        H: Static,
    {
        Self::of_heads(Heads(H::default()))
    }

    /// The paper's slopes, for a number of heads of any kind.
    pub fn of_heads(heads: Heads<H>) -> Self {
        let n = heads.0.get();
        let lower = if n == 0 { 1 } else { 1 << n.ilog2() };
        #[allow(clippy::cast_precision_loss, reason = "heads are few")]
        let slope = |h: usize, n: usize| (-8.0 * (h + 1) as f64 / n as f64).exp2();
        let of_head = |h: usize| match h < lower {
            true => slope(h, lower),
            false => slope(2 * (h - lower), 2 * lower),
        };
        Alibi { slopes: Tensor::from_fn_in((heads,), |at| E::from_f64(of_head(at[0]))) }
    }

    /// Slopes of one's own.
    pub fn of_slopes(slopes: Tensor<(Heads<H>,), E>) -> Self {
        Alibi { slopes }
    }

    /// The slope of each head.
    pub fn slopes(&self) -> &Tensor<(Heads<H>,), E> {
        &self.slopes
    }
}

impl<H: Static, E: Float> Default for Alibi<H, E> {
    fn default() -> Self {
        Self::new()
    }
}

#[diagnostic::do_not_recommend]
impl<B, H: Size, Q, K, E: Float> MaskFor<Scores<B, H, Q, K>, E> for Alibi<H, E> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        self.add_at(Start::end_of(parts), parts);
    }
}

#[diagnostic::do_not_recommend]
impl<H: Size, E: Float> Positioned<H, E> for Alibi<H, E> {
    fn add_at(&self, start: Start, parts: &mut MaskParts<E>) {
        parts.slopes.push((self.slopes.erase(), start));
    }
}

/// A number for each head and each distance from a query's position to a key is added to the scores;
/// distances outside of the table take the entry at its edge. Memory is that of the table, whatever the
/// length.
///
/// A key behind the query is at a distance below 0. Queries are aligned to the END of the keys, as
/// [`Causal`](crate::Causal) is.
///
/// ```
/// use shapeproof::{scaled_dot_product_attention, Batch, DistanceBias, HeadDim, Heads, Key, Query, Tensor, C};
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<3>>, HeadDim<C<1>>)>::ones();
/// let v = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<3>>, HeadDim<C<1>>)>::from([[[[7.0], [14.0], [28.0]]]]);
/// let farther_weighs_more = |reach: isize| {
///     DistanceBias::from_fn(Heads(C::<1>), -reach..=0, |_, distance| -distance as f32 * 2.0_f32.ln())
/// };
/// let y = |bias: DistanceBias<C<1>>| scaled_dot_product_attention(&q, &k, &v, bias).to_vec()[0];
/// assert!((y(farther_weighs_more(2)) - 12.0).abs() < 1e-5); // weights 4 : 2 : 1
/// assert!((y(farther_weighs_more(1)) - 14.0).abs() < 1e-5); // the entry at the edge: 2 : 2 : 1
/// ```
#[derive(Clone)]
pub struct DistanceBias<H, E = f32> {
    heads: Heads<H>,
    /// Over heads and distances.
    table: AnyTensor<E>,
    first: isize,
}

impl<H: Size, E: Float> DistanceBias<H, E> {
    /// The table of what `bias(head, distance)` gives for these distances. An empty range adds nothing.
    pub fn from_fn(
        heads: Heads<H>,
        distances: RangeInclusive<isize>,
        bias: impl Fn(usize, isize) -> E,
    ) -> Self {
        let first = *distances.start();
        let n = heads.0.get();
        let data: Vec<E> = (0..n)
            .flat_map(|h| distances.clone().map(move |d| (h, d)))
            .map(|(h, d)| bias(h, d))
            .collect();
        let entries = data.len().checked_div(n).unwrap_or(0);
        let table = AnyTensor::from_packed(&[n, entries], data);
        DistanceBias { heads, table, first }
    }

    /// The numbers of this table, whose first entry is for the distance `first`: as a parameter gives it in
    /// training, it is learned.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{
    ///     scaled_dot_product_attention, Batch, Distance, DistanceBias, HeadDim, Heads, Key, Mode, Parameter,
    ///     Query, Tensor, Train, C,
    /// };
    ///
    /// let table = Parameter::new(Tensor::<(Heads<C<1>>, Distance<C<2>>)>::zeros());
    /// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<1>>)>::zeros();
    /// let v = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<2>>, HeadDim<C<1>>)>::from([[[[0.0], [4.0]]]]);
    /// let mut train = Train::seeded(1);
    /// let bias = DistanceBias::of_table(train.read(&table), -1);
    /// let y = scaled_dot_product_attention(&q, &v, &v, bias);
    /// assert_eq!(train.backward(&y.sum_all()).of(&table).to_vec(), [-1.0, 1.0]);
    /// ```
    pub fn of_table<T: Size>(table: Tensor<(Heads<H>, Distance<T>), E>, first: isize) -> Self {
        DistanceBias { heads: table.shape().0, table: table.erase(), first }
    }

    /// The heads that it has numbers for.
    pub fn heads(&self) -> Heads<H> {
        self.heads
    }
}

#[diagnostic::do_not_recommend]
impl<B, H: Size, Q, K, E: Float> MaskFor<Scores<B, H, Q, K>, E> for DistanceBias<H, E> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        self.add_at(Start::end_of(parts), parts);
    }
}

#[diagnostic::do_not_recommend]
impl<H: Size, E: Float> Positioned<H, E> for DistanceBias<H, E> {
    fn add_at(&self, start: Start, parts: &mut MaskParts<E>) {
        parts.distances.push((self.table.clone(), self.first, start));
    }
}

/// Learned biases for buckets of distances, as T5 has them: exact for small distances, then in
/// logarithmic steps up to `max_distance`, beyond which all share the last one.
///
/// `N` is the number of buckets; where both directions are told apart, half of them are for keys ahead.
///
/// # Examples
/// ```
/// use shapeproof::{DistanceBuckets, Heads, Infer, C};
///
/// let buckets = DistanceBuckets::<C<32>, C<8>>::zeros(128, true);
/// assert_eq!([-1, 0, 1, 200].map(|distance| buckets.bucket(distance)), [1, 0, 17, 31]);
/// assert_eq!(buckets.bias(&mut Infer).heads(), Heads(C::<8>));
/// ```
///
/// # References
/// Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
/// 2020, section 2.1, and its code for the buckets.
pub struct DistanceBuckets<N, H, E = f32> {
    /// A bias for each bucket and head.
    pub weight: Parameter<(Bucket<N>, Heads<H>), E>,
    max_distance: usize,
    both_directions: bool,
}

#[diagnostic::do_not_recommend]
impl<N: Size, H: Size, E: Float> Module for DistanceBuckets<N, H, E> {
    parameters!(weight);
}

impl<N: Static, H: Static, E: Float> DistanceBuckets<N, H, E> {
    /// Buckets up to `max_distance`; `both_directions` as encoders have it, keys behind alone as decoders.
    pub fn zeros(max_distance: usize, both_directions: bool) -> Self
    where
        (Bucket<N>, Heads<H>): FixedSizes,
    {
        Self::of(Tensor::zeros(), max_distance, both_directions)
    }

    /// Buckets with these biases.
    pub fn of(
        weight: Tensor<(Bucket<N>, Heads<H>), E>,
        max_distance: usize,
        both_directions: bool,
    ) -> Self {
        DistanceBuckets { weight: Parameter::new(weight), max_distance, both_directions }
    }

    /// The bucket of a distance from a query to a key, which is below 0 for keys behind.
    pub fn bucket(&self, distance: isize) -> usize {
        let (ahead, count, far) = match self.both_directions {
            true => (distance > 0, N::N / 2, distance.unsigned_abs()),
            false => (false, N::N, distance.min(0).unsigned_abs()),
        };
        let exact = count / 2;
        let bucket = if far < exact {
            far
        } else {
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a bucket is a small number, and a float below 0 becomes 0"
            )]
            let step = {
                let times = |n: usize| (n as f64 / exact.max(1) as f64).ln();
                (times(far) / times(self.max_distance) * (count - exact) as f64) as usize
            };
            exact.saturating_add(step).min(count.saturating_sub(1))
        };
        bucket + if ahead { count } else { 0 }
    }

    /// The bias, for sequences of any length.
    pub fn bias(&self, mode: &mut impl Mode) -> DistanceBias<H, E> {
        let far = self.max_distance.min(isize::MAX.unsigned_abs()).cast_signed();
        let ahead = if self.both_directions { far } else { 0 };
        // Without a bucket there is nothing to add.
        let distances = (-far..=ahead).filter(|_| N::N > 0);
        let buckets = distances.map(|distance| self.bucket(distance)).collect();
        let table = mode.read(&self.weight).any().gathered(0, buckets, None).permuted(&[1, 0]);
        DistanceBias { heads: Heads(H::default()), table, first: -far }
    }
}

positioned! {
    [H: Size, E: Float] Alibi<H, E>;
    [H: Size, E: Float] DistanceBias<H, E>;
}
and! {
    [H, E,] Alibi<H, E>;
    [H, E,] &Alibi<H, E>;
    [H, E,] DistanceBias<H, E>;
    [H, E,] &DistanceBias<H, E>;
}
