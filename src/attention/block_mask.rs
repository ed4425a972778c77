//! Masks over blocks of queries and keys.

use super::mask::{MaskFor, Scores, and};
use super::parts::{Listed, MaskParts};
use crate::axis::{Heads, Key, Query};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::size::{Size, Splits, Static};
use crate::tensor::Tensor;
use std::sync::Arc;

/// Which blocks of queries may see which blocks of keys; what is in no such block is hidden. Time and
/// memory of attention are in proportion to the blocks that may be seen.
///
/// The block size `S` is a type that divides both lengths; where they are known only at run time,
/// [`try_from_fn`](Self::try_from_fn) checks it once. Combined with other masks by `&`: `blocks & Causal`
/// hides the upper half of the blocks on the diagonal. Blocks of 32, 48, 64 or a multiple of these are the
/// fastest.
///
/// # Compile errors
/// `block_size_must_divide_the_sequence`: "C<100> cannot be divided evenly by C<64>".
///
/// # Examples
/// ```
/// use shapeproof::{
///     scaled_dot_product_attention, Batch, BlockMask, HeadDim, Heads, Key, Query, Tensor, C,
/// };
///
/// let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<4>>, HeadDim<C<1>>)>::zeros();
/// let k = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<4>>, HeadDim<C<1>>)>::ones();
/// let v = Tensor::<(Batch<C<1>>, Heads<C<1>>, Key<C<4>>, HeadDim<C<1>>)>::from([[[
///     [2.0], [4.0], [6.0], [8.0],
/// ]]]);
/// let own_block = BlockMask::from_fn::<C<2>>(Query(C), Key(C), |query, key| query == key);
/// let y = scaled_dot_product_attention(&q, &k, &v, own_block);
/// assert_eq!(y.to_vec(), [3.0, 3.0, 7.0, 7.0]);
/// ```
///
/// # References
/// Child et al., "Generating Long Sequences with Sparse Transformers", 2019; Zaheer et al., "Big Bird:
/// Transformers for Longer Sequences", 2020.
#[derive(Clone, Debug)]
pub struct BlockMask<Q, K> {
    query: Query<Q>,
    key: Key<K>,
    listed: Arc<Listed>,
}

/// As [`BlockMask`], with blocks of its own for each head.
#[derive(Clone, Debug)]
pub struct HeadBlockMask<H, Q, K> {
    heads: Heads<H>,
    query: Query<Q>,
    key: Key<K>,
    listed: Arc<Listed>,
}

impl Listed {
    fn of(
        size: usize,
        [lists, rows, columns]: [usize; 3],
        visible: impl Fn(usize, usize, usize) -> bool,
    ) -> Arc<Self> {
        let mut listed = Listed { size, rows, starts: vec![0], columns: Vec::new() };
        for (list, row) in (0..lists).flat_map(|list| (0..rows).map(move |row| (list, row))) {
            listed.columns.extend((0..columns).filter(|&column| visible(list, row, column)));
            listed.starts.push(listed.columns.len());
        }
        Arc::new(listed)
    }
}

/// How often a block size goes into two lengths.
fn counts<Q: Size, K: Size>(size: usize, query: Query<Q>, key: Key<K>) -> Result<[usize; 2]> {
    let part = |name: &str, len: usize| {
        len.checked_div(size).filter(|part| part * size == len).ok_or_else(|| {
            Error::value(format!("expected a block size that divides {name} {len}, found {size}"))
        })
    };
    Ok([part("Query", query.0.get())?, part("Key", key.0.get())?])
}

impl<Q: Size, K: Size> BlockMask<Q, K> {
    /// The blocks for which `visible(block of queries, block of keys)` holds, both counted from 0.
    pub fn from_fn<S: Splits<Q> + Splits<K>>(
        query: Query<Q>,
        key: Key<K>,
        visible: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let counts = [1, <S as Splits<Q>>::Part::N, <S as Splits<K>>::Part::N];
        let listed = Listed::of(S::N, counts, |_, row, column| visible(row, column));
        BlockMask { query, key, listed }
    }

    /// As [`from_fn`](Self::from_fn), for lengths known only at run time.
    ///
    /// # Errors
    /// Where `size` is 0 or does not divide both lengths.
    pub fn try_from_fn(
        size: usize,
        query: Query<Q>,
        key: Key<K>,
        visible: impl Fn(usize, usize) -> bool,
    ) -> Result<Self> {
        let [rows, columns] = counts(size, query, key)?;
        let listed = Listed::of(size, [1, rows, columns], |_, row, column| visible(row, column));
        Ok(BlockMask { query, key, listed })
    }

    /// The blocks that are true in a tensor over blocks: of `S` queries and `S` keys each.
    pub fn from_blocks<S: Splits<Q> + Splits<K>>(
        query: Query<Q>,
        key: Key<K>,
        visible: &Tensor<(Query<<S as Splits<Q>>::Part>, Key<<S as Splits<K>>::Part>), bool>,
    ) -> Self {
        let (flags, columns) = (visible.to_vec(), <S as Splits<K>>::Part::N);
        Self::from_fn::<S>(query, key, |row, column| flags[row * columns + column])
    }

    /// As [`from_blocks`](Self::from_blocks), for lengths known only at run time.
    ///
    /// # Errors
    /// Where `size` times the tensor's sizes are not the lengths.
    pub fn try_from_blocks<A: Size, B: Size>(
        size: usize,
        query: Query<Q>,
        key: Key<K>,
        visible: &Tensor<(Query<A>, Key<B>), bool>,
    ) -> Result<Self> {
        let (found, counts) = (visible.any().dims(), counts(size, query, key)?);
        if found != counts {
            return Err(Error::shape(format!(
                "expected (Query {}, Key {}) blocks of {size}, found (Query {}, Key {})",
                counts[0], counts[1], found[0], found[1]
            )));
        }
        let flags = visible.to_vec();
        Self::try_from_fn(size, query, key, |row, column| flags[row * counts[1] + column])
    }

    /// The share of all blocks that may be seen; 1 where there are none.
    pub fn density(&self) -> f64 {
        let columns = self.key.0.get().checked_div(self.listed.size).unwrap_or(0);
        let all = self.listed.rows.saturating_mul(columns);
        #[allow(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
        let share = || self.listed.columns.len() as f64 / all as f64;
        if all == 0 { 1.0 } else { share() }
    }

    /// The lengths that it is for.
    pub fn shape(&self) -> (Query<Q>, Key<K>) {
        (self.query, self.key)
    }
}

impl<H: Size, Q: Size, K: Size> HeadBlockMask<H, Q, K> {
    /// The blocks for which `visible(head, block of queries, block of keys)` holds, all counted from 0.
    pub fn from_fn<S: Splits<Q> + Splits<K>>(
        heads: Heads<H>,
        query: Query<Q>,
        key: Key<K>,
        visible: impl Fn(usize, usize, usize) -> bool,
    ) -> Self {
        let counts = [heads.0.get(), <S as Splits<Q>>::Part::N, <S as Splits<K>>::Part::N];
        HeadBlockMask { heads, query, key, listed: Listed::of(S::N, counts, visible) }
    }

    /// As [`from_fn`](Self::from_fn), for lengths known only at run time.
    ///
    /// # Errors
    /// Where `size` is 0 or does not divide both lengths.
    pub fn try_from_fn(
        size: usize,
        heads: Heads<H>,
        query: Query<Q>,
        key: Key<K>,
        visible: impl Fn(usize, usize, usize) -> bool,
    ) -> Result<Self> {
        let [rows, columns] = counts(size, query, key)?;
        let listed = Listed::of(size, [heads.0.get(), rows, columns], visible);
        Ok(HeadBlockMask { heads, query, key, listed })
    }

    /// The heads and lengths that it is for.
    pub fn shape(&self) -> (Heads<H>, Query<Q>, Key<K>) {
        (self.heads, self.query, self.key)
    }
}

/// The pattern of the Sparse Transformer, in blocks: each block of queries sees the last `local` blocks of
/// keys up to its own, and every `stride`-th block of keys before it, the last of each run of `stride`.
/// For [`BlockMask::from_fn`], with `& Causal`.
///
/// # References
/// Child et al., 2019, section 4.2, "fixed" attention.
pub fn strided(local: usize, stride: usize) -> impl Fn(usize, usize) -> bool + Copy {
    move |query, key| {
        let before = query.checked_sub(key);
        let last = (key + 1).checked_rem(stride) == Some(0);
        before.is_some_and(|before| before < local || last)
    }
}

#[diagnostic::do_not_recommend]
impl<B, H, Q: Size, K: Size, E: Float> MaskFor<Scores<B, H, Q, K>, E> for BlockMask<Q, K> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        parts.blocks.push((self.listed.clone(), false));
    }
}

#[diagnostic::do_not_recommend]
impl<B, H, Q, K, E: Float> MaskFor<Scores<B, H, Q, K>, E> for HeadBlockMask<H, Q, K> {
    fn add_to(&self, parts: &mut MaskParts<E>) {
        parts.blocks.push((self.listed.clone(), true));
    }
}

and! {
    [Q, K,] BlockMask<Q, K>;
    [Q, K,] &BlockMask<Q, K>;
    [H, Q, K,] HeadBlockMask<H, Q, K>;
    [H, Q, K,] &HeadBlockMask<H, Q, K>;
}
