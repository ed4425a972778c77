//! One step of decoding in which each sample is at a position of its own.

use super::KvCache;
use super::step::{Written, check_keys};
use super::store::{Counts, Store};
use crate::axis::{Axis, Batch, HeadDim, Key, Query, Seq};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::size::Size;
use crate::tensor::Tensor;
use std::fmt::Display;

/// A step of a [`KvCache`] in which sample i has `counts[i]` of `T` new positions, behind a length of
/// its own. Begun by [`KvCache::begin_ragged`].
///
/// What the layers append beyond a sample's count is padding and is not kept. Key j of a view has the
/// position j; beyond what a sample has, its keys and values mean nothing, so a view comes with the
/// mask that hides them, and padding queries see nothing.
///
/// # Examples
/// ```
/// use shapeproof::{Heads, Key, KvCache, Seq, Tensor, C};
///
/// let mut cache = KvCache::<C<2>, Heads<C<1>>, C<8>, C<1>>::try_new(1)?;
/// let mut step = cache.begin_ragged(Seq(C::<3>), &[3, 1])?;
/// step.append(0, &Tensor::ones(), &Tensor::ones())?;
/// let (_, _, mask) = step.view(0, Key(C::<3>))?;
/// assert_eq!(mask.to_vec()[..9], [true, false, false, true, true, false, true, true, true]);
/// assert_eq!(mask.to_vec()[9..], [true, false, false, false, false, false, false, false, false]);
/// step.commit()?;
/// assert_eq!(cache.lengths(), [3, 1]);
///
/// let step = cache.begin_ragged(Seq(C::<1>), &[1, 1])?;
/// assert_eq!(step.positions().to_vec(), [3, 1]);
/// # Ok::<(), shapeproof::Error>(())
/// ```
#[must_use = "a step that is not committed leaves the cache as it was"]
pub struct RaggedStep<'c, B, KV, Cap, D, V, T, E> {
    cache: &'c mut KvCache<B, KV, Cap, D, V, E>,
    new: Seq<T>,
    counts: Vec<usize>,
    written: Written,
}

impl<'c, B, KV, Cap, D, V, T, E> RaggedStep<'c, B, KV, Cap, D, V, T, E>
where
    B: Size,
    KV: Axis,
    Cap: Size,
    D: Size,
    V: Axis,
    T: Size,
    E: Float,
{
    pub(super) fn new(
        cache: &'c mut KvCache<B, KV, Cap, D, V, E>,
        new: Seq<T>,
        counts: &[usize],
    ) -> Result<Self> {
        let store = &cache.store;
        check_each(store, counts)?;
        for (sample, (&count, &length)) in counts.iter().zip(store.lengths()).enumerate() {
            if count > new.0.get() {
                let most = new.0.get();
                return Err(of_sample(
                    sample,
                    format!("expected at most {most} new positions, found {count}"),
                ));
            }
            store.check_room(length, count).map_err(|error| of_sample(sample, error))?;
        }
        let written = Written::none(store);
        Ok(RaggedStep { cache, new, counts: counts.to_vec(), written })
    }

    /// The position of the first new token of each sample.
    pub fn starts(&self) -> &[usize] {
        self.cache.store.lengths()
    }

    /// The positions of the new tokens of each sample, as rotary embeddings need them; those of the
    /// padding run on.
    pub fn positions(&self) -> Tensor<(Batch<B>, Seq<T>), usize> {
        let starts = self.starts();
        Tensor::from_fn_in((self.cache.shape.0, self.new), |at| starts[at[0]] + at[1])
    }

    /// How many keys a view has: as many as the longest sample, with its new positions.
    pub fn keys(&self) -> usize {
        let lengths = self.starts().iter().zip(&self.counts);
        lengths.map(|(length, new)| length + new).max().unwrap_or(0)
    }

    /// Writes a layer's keys and values of each sample's new positions behind those before.
    ///
    /// # Errors
    /// As [`CacheStep::append`](super::CacheStep::append).
    pub fn append(
        &mut self,
        layer: usize,
        keys: &Tensor<(Batch<B>, KV, Key<T>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<T>, V), E>,
    ) -> Result<()> {
        let new = Counts::Each(&self.counts);
        self.written.write(layer, &mut self.cache.store, [keys.any(), values.any()], new)
    }

    /// A layer's keys and values, those before and the new ones, and which of them each query sees: of
    /// its own sample those up to its own position. Moves no data.
    ///
    /// # Errors
    /// Where the layer has not been written in this step, or K is not [`keys`](Self::keys).
    pub fn view<K: Size>(
        &self,
        layer: usize,
        keys: Key<K>,
    ) -> Result<(
        Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>,
        Tensor<(Batch<B>, KV, Key<K>, V), E>,
        Tensor<(Batch<B>, Query<T>, Key<K>), bool>,
    )> {
        self.written.check(layer, &self.cache.store)?;
        check_keys(keys, self.keys())?;
        let (k, v) = self.cache.kept(layer, 0, keys);
        let starts = self.starts();
        let mask = Tensor::from_fn_in((self.cache.shape.0, Query(self.new.0), keys), |at| {
            let [sample, query, key] = [at[0], at[1], at[2]];
            query < self.counts[sample] && key <= starts[sample] + query
        });
        Ok((k, v, mask))
    }

    /// Keeps the new positions.
    ///
    /// # Errors
    /// Where a layer has not been written; the cache is as it was before the step then.
    pub fn commit(self) -> Result<()> {
        self.written.check_all()?;
        self.cache.store.grow(Counts::Each(&self.counts));
        Ok(())
    }
}

/// What does not fit, of which sample.
fn of_sample(sample: usize, what: impl Display) -> Error {
    Error::shape(format!("sample {sample}: {what}"))
}

/// Whether there is a number for each sample of a cache that can tell them apart.
pub(super) fn check_each<E: Float>(store: &Store<E>, numbers: &[usize]) -> Result<()> {
    if store.is_ring() {
        return Err(Error::value("the samples of a ring have one length"));
    }
    let batch = store.lengths().len();
    if numbers.len() != batch {
        return Err(Error::shape(format!(
            "expected a number for each of {batch} samples, found {}",
            numbers.len()
        )));
    }
    Ok(())
}
