//! Several sequences in one, without padding.

use super::mask::{MaskFor, Scores, and};
use super::parts::{BandOf, MaskParts};
use crate::axis::{Key, Query};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::size::Size;
use std::sync::Arc;

/// Packed sequences: the queries of each segment see the keys of the same segment, and no others. Nothing
/// is padded, and what lies between segments is not computed.
///
/// Sequences of different lengths are laid one after the other along `Seq` of a batch of one. Positions
/// behind the last segment see nothing.
///
/// ```
/// use shapeproof::{scaled_dot_product_attention, Batch, HeadDim, Heads, Key, Query, Segments, Tensor, C};
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<5>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<5>>, HeadDim<C<1>>)>::ones();
/// let v = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<5>>, HeadDim<C<1>>)>::from([[[
///     [2.0], [4.0], [6.0], [8.0], [1.0],
/// ]]]);
/// let two = Segments::try_of(Query(C::<5>), Key(C::<5>), &[3, 1])?;
/// let y = scaled_dot_product_attention(&q, &k, &v, &two);
/// assert_eq!(y.to_vec(), [4.0, 4.0, 4.0, 8.0, 0.0]);
/// let y = scaled_dot_product_attention(&q, &k, &v, two.causal());
/// assert_eq!(y.to_vec(), [2.0, 3.0, 4.0, 8.0, 0.0]);
/// # Ok::<(), shapeproof::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Segments<Q, K> {
    query: Query<Q>,
    key: Key<K>,
    /// Of each query, the keys that it sees.
    ranges: Arc<[[usize; 2]]>,
    /// Of each segment, its numbers of queries and keys.
    lengths: Vec<[usize; 2]>,
}

impl<Q: Size, K: Size> Segments<Q, K> {
    /// Segments of these lengths, of queries and keys alike.
    ///
    /// # Errors
    /// Where they add up to more than there are queries or keys.
    pub fn try_of(query: Query<Q>, key: Key<K>, lengths: &[usize]) -> Result<Self> {
        Self::try_between(query, key, lengths, lengths)
    }

    /// Segments with numbers of queries and of keys of their own, as cross attention has them.
    ///
    /// # Errors
    /// Where the numbers of segments differ, or they add up to more than there are queries or keys.
    pub fn try_between(
        query: Query<Q>,
        key: Key<K>,
        queries: &[usize],
        keys: &[usize],
    ) -> Result<Self> {
        if queries.len() != keys.len() {
            return Err(Error::shape(format!(
                "expected as many segments of keys as of queries, {}, found {}",
                queries.len(),
                keys.len()
            )));
        }
        for (name, lengths, most) in [("Query", queries, query.0.get()), ("Key", keys, key.0.get())]
        {
            let sum = lengths.iter().try_fold(0_usize, |sum, &len| sum.checked_add(len));
            if sum.is_none_or(|sum| sum > most) {
                let sum = sum.map_or("more than can be counted".into(), |sum| sum.to_string());
                return Err(Error::shape(format!(
                    "expected segments that add up to at most {name} {most}, found {sum}"
                )));
            }
        }
        let lengths: Vec<_> = queries.iter().zip(keys).map(|(&q, &k)| [q, k]).collect();
        let ranges = ranges(query.0.get(), &lengths, |_, len| len);
        Ok(Segments { query, key, ranges, lengths })
    }

    /// Within each segment, a query sees keys up to its own position, aligned to the segment's END.
    pub fn causal(self) -> Self {
        let upto = |behind: usize, len: usize| len.saturating_sub(behind);
        let ranges = ranges(self.query.0.get(), &self.lengths, upto);
        Segments { ranges, ..self }
    }

    /// The lengths that it is for.
    pub fn shape(&self) -> (Query<Q>, Key<K>) {
        (self.query, self.key)
    }
}

/// Of each query the keys it sees: of its segment, as many as `upto` gives for the number of queries that
/// follow it there and the segment's keys.
fn ranges(
    queries: usize,
    lengths: &[[usize; 2]],
    upto: impl Fn(usize, usize) -> usize,
) -> Arc<[[usize; 2]]> {
    let (mut ranges, mut start) = (Vec::with_capacity(queries), 0);
    for &[count, len] in lengths {
        ranges.extend((0..count).map(|i| [start, start + upto(count - 1 - i, len)]));
        start += len;
    }
    ranges.resize(queries, [0, 0]);
    ranges.into()
}

#[diagnostic::do_not_recommend]
impl<B, H, Q: Size, K: Size, E: Float> MaskFor<Scores<B, H, Q, K>, E> for Segments<Q, K> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        parts.bands.push(BandOf::Ranges(self.ranges.clone()));
    }
}

and! {
    [Q, K,] Segments<Q, K>;
    [Q, K,] &Segments<Q, K>;
}
