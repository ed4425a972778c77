//! Keys and values of the positions that were, kept for those that come.

mod ragged;
mod step;
mod store;

pub use ragged::RaggedStep;
pub use step::CacheStep;

use crate::axis::{Axis, Batch, HeadDim, Key, Seq};
use crate::element::Float;
use crate::error::Result;
use crate::shape::FixedSizes;
use crate::size::Size;
use crate::tensor::Tensor;
use std::fmt::{self, Debug, Formatter};
use store::{Counts, Store};

/// The keys and values of all layers of a decoder, for up to `Cap` positions of each sample.
///
/// Decoding goes step by step. A step is begun once for all layers, each layer appends its keys and
/// values of the new positions and sees them behind those of the earlier ones, and the step is
/// committed at the end: so no layer can run ahead of another. A step that is dropped leaves the cache
/// as it was.
///
/// | | |
/// |---|---|
/// | `B` | samples |
/// | `KV` | the axis of the key/value heads: `Heads<H>` or `KvHeads<G>` |
/// | `Cap` | positions that there is room for |
/// | `D` | width of a key |
/// | `V` | the axis of a value, `HeadDim<D>` unless it says otherwise |
///
/// The number of layers and the length are values.
///
/// # Shapes
/// A layer appends keys over `(Batch<B>, KV, Key<T>, HeadDim<D>)` and values over `(Batch<B>, KV,
/// Key<T>, V)`, T the size of the step, and sees both over `Key<K>`, K = length + T: a size that is
/// checked once, when the view is taken.
///
/// # Memory
/// All of it is taken at the start. Appending writes in place and a view is a view, so a step takes no
/// memory of the size of the cache. Only where a view, or a clone of the cache, is still there when its
/// layer is appended to is the layer's storage copied first: what was seen never changes.
///
/// # Compile errors
/// `cache_must_be_of_the_batch`, `cache_must_have_the_kv_heads`, `cache_must_have_the_head_dim`,
/// `cached_keys_must_not_be_the_new_ones`, `cache_of_run_time_sizes_must_be_given_them`.
///
/// # Examples
/// ```
/// use shapeproof::{
///     dyn_size, scaled_dot_product_attention, Batch, Causal, HeadDim, Heads, Key, KvCache, Query, Seq,
///     Tensor, C,
/// };
///
/// type Keys<T> = Tensor<(Batch<C<1>>, Heads<C<1>>, Key<T>, HeadDim<C<1>>)>;
///
/// let mut cache = KvCache::<C<1>, Heads<C<1>>, C<8>, C<1>>::try_new(1)?;
/// // Queries of 0 weigh all keys alike: the output is the mean of the values so far.
/// let mut means = Vec::new();
/// for value in [3.0, 6.0, 9.0] {
///     let mut step = cache.begin(Seq(C::<1>))?;
///     step.append(0, &Keys::<C<1>>::zeros(), &Keys::<C<1>>::full(value))?;
///     dyn_size!(keys = step.keys());
///     let (k, v) = step.view(0, Key(keys))?;
///     let q = Tensor::<(Batch<C<1>>, Heads<C<1>>, Query<C<1>>, HeadDim<C<1>>)>::zeros();
///     means.extend(scaled_dot_product_attention(&q, &k, &v, Causal).to_vec());
///     step.commit()?;
/// }
/// assert_eq!(means, [3.0, 4.5, 6.0]);
/// assert_eq!(cache.length()?, 3);
/// # Ok::<(), shapeproof::Error>(())
/// ```
#[derive(Clone)]
pub struct KvCache<B, KV, Cap, D, V = HeadDim<D>, E = f32> {
    shape: CacheShape<B, KV, Cap, D>,
    values: V,
    store: Store<E>,
}

/// What a cache of keys is over.
type CacheShape<B, KV, Cap, D> = (Batch<B>, KV, Key<Cap>, HeadDim<D>);

impl<B: Size, KV: Axis, Cap: Size, D: Size, V: Axis, E: Float> KvCache<B, KV, Cap, D, V, E> {
    /// An empty cache; for sizes that are all static.
    ///
    /// # Errors
    /// As [`try_new_in`](Self::try_new_in).
    pub fn try_new(layers: usize) -> Result<Self>
    where
        (Batch<B>, KV, Key<Cap>, HeadDim<D>): FixedSizes,
        V: FixedSizes,
    {
        Self::try_new_in(FixedSizes::fixed(), V::fixed(), layers)
    }

    /// An empty cache for keys over `shape` and values with the last axis `values`, of so many layers.
    ///
    /// # Errors
    /// Where the sizes multiply to more than the machine can count, or than there is memory for.
    pub fn try_new_in(
        shape: (Batch<B>, KV, Key<Cap>, HeadDim<D>),
        values: V,
        layers: usize,
    ) -> Result<Self> {
        Self::of(shape, values, layers, None)
    }

    /// An empty ring, for attention to a sliding window: it keeps the last `Cap` positions, and a query
    /// sees `window` keys at most, its own position included. For sizes that are all static.
    ///
    /// # Errors
    /// As [`try_ring_in`](Self::try_ring_in).
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Heads, KvCache, Seq, Tensor, C};
    ///
    /// let mut ring = KvCache::<C<1>, Heads<C<1>>, C<4>, C<1>>::try_ring(1, 3)?;
    /// for _ in 0..100 {
    ///     let mut step = ring.begin(Seq(C::<1>))?;
    ///     step.append(0, &Tensor::ones(), &Tensor::ones())?;
    ///     step.commit()?;
    /// }
    /// let step = ring.begin(Seq(C::<1>))?;
    /// assert_eq!((step.start(), step.first_position(), step.keys()), (100, 98, 3));
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn try_ring(layers: usize, window: usize) -> Result<Self>
    where
        (Batch<B>, KV, Key<Cap>, HeadDim<D>): FixedSizes,
        V: FixedSizes,
    {
        Self::try_ring_in(FixedSizes::fixed(), V::fixed(), layers, window)
    }

    /// As [`try_ring`](Self::try_ring), with sizes of any kind.
    ///
    /// The views of a ring are contiguous and in order. There is room for 2 · Cap positions; where its
    /// end is reached, what is kept moves to the front: less than one copy for each position.
    ///
    /// # Errors
    /// As [`try_new_in`](Self::try_new_in), and where the window is 0 or larger than the capacity.
    pub fn try_ring_in(
        shape: (Batch<B>, KV, Key<Cap>, HeadDim<D>),
        values: V,
        layers: usize,
        window: usize,
    ) -> Result<Self> {
        Self::of(shape, values, layers, Some(window))
    }

    fn of(
        shape: CacheShape<B, KV, Cap, D>,
        values: V,
        layers: usize,
        window: Option<usize>,
    ) -> Result<Self> {
        let (batch, heads, capacity, dim) = shape;
        let sizes = [
            batch.size().get(),
            heads.size().get(),
            capacity.size().get(),
            dim.size().get(),
            values.size().get(),
        ];
        Ok(KvCache { shape, values, store: Store::try_new(sizes, layers, window)? })
    }

    /// How many layers it is for.
    pub fn layers(&self) -> usize {
        self.store.layers()
    }

    /// How many positions the samples have had.
    ///
    /// # Errors
    /// Where they differ, after a ragged step.
    pub fn length(&self) -> Result<usize> {
        self.store.length()
    }

    /// How many positions each sample has had.
    pub fn lengths(&self) -> &[usize] {
        self.store.lengths()
    }

    /// The oldest position that is kept: 0 but in a ring.
    pub fn first_kept(&self) -> usize {
        self.store.first()
    }

    /// Begins a step of as many new positions, the same number for each sample.
    ///
    /// # Errors
    /// Where there is no room for them, or the samples have different lengths; the cache is as it was.
    pub fn begin<T: Size>(&mut self, new: Seq<T>) -> Result<CacheStep<'_, B, KV, Cap, D, V, T, E>> {
        CacheStep::new(self, new)
    }

    /// Begins a step in which sample i has `counts[i]` new positions: the first of the `new` that the
    /// layers append. Samples of a batch may so have prompts of different lengths.
    ///
    /// # Errors
    /// Where there are not as many counts as samples, one exceeds `new` or has no room, or the cache is
    /// a ring, whose samples have one length; the cache is as it was.
    pub fn begin_ragged<T: Size>(
        &mut self,
        new: Seq<T>,
        counts: &[usize],
    ) -> Result<RaggedStep<'_, B, KV, Cap, D, V, T, E>> {
        RaggedStep::new(self, new, counts)
    }

    /// Forgets the positions from `length` on.
    ///
    /// # Errors
    /// Where a sample is shorter than that, or a ring no longer keeps what the next position would see;
    /// nothing is forgotten then.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Heads, KvCache, Seq, Tensor, C};
    ///
    /// let mut cache = KvCache::<C<1>, Heads<C<1>>, C<4>, C<1>>::try_new(1)?;
    /// let mut step = cache.begin(Seq(C::<3>))?;
    /// step.append(0, &Tensor::ones(), &Tensor::ones())?;
    /// step.commit()?;
    /// cache.truncate(2)?;
    /// assert_eq!(cache.length()?, 2);
    /// let error = cache.truncate(3).unwrap_err();
    /// assert_eq!(error.to_string(), "cannot rewind sample 0 to 3 positions, it has 2");
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn truncate(&mut self, length: usize) -> Result<()> {
        self.store.truncate(Counts::Same(length))
    }

    /// Forgets the positions of sample i from `lengths[i]` on.
    ///
    /// # Errors
    /// As [`truncate`](Self::truncate), and where there are not as many lengths as samples or the cache
    /// is a ring.
    pub fn truncate_each(&mut self, lengths: &[usize]) -> Result<()> {
        ragged::check_each(&self.store, lengths)?;
        self.store.truncate(Counts::Each(lengths))
    }

    /// Sample i becomes what sample `from[i]` was, as beam search needs it. Copies the layers one after
    /// the other, unless each sample stays where it is.
    ///
    /// # Errors
    /// Where there is not an index for each sample, or one lies outside of the batch; nothing is changed
    /// then.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Heads, KvCache, C};
    ///
    /// let mut cache = KvCache::<C<2>, Heads<C<1>>, C<4>, C<1>>::try_new(1)?;
    /// cache.reorder(&[1, 1])?;
    /// let error = cache.reorder(&[0, 2]).unwrap_err();
    /// assert_eq!(error.to_string(), "index 2, at 1, is outside of a batch of 2");
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn reorder(&mut self, from: &[usize]) -> Result<()> {
        self.store.reorder(from)
    }

    /// Forgets all positions; keeps the memory.
    pub fn clear(&mut self) {
        self.store.clear();
    }

    /// A layer's keys and values, as many as `keys` has, from the position `first` on.
    fn kept<K: Size>(
        &self,
        layer: usize,
        first: usize,
        keys: Key<K>,
    ) -> (Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>, Tensor<(Batch<B>, KV, Key<K>, V), E>) {
        let (batch, heads, _, dim) = self.shape;
        let [k, v] = self.store.view(layer, first, keys.0.get());
        let values = (batch, heads, keys, self.values);
        (Tensor::typed((batch, heads, keys, dim), k), Tensor::typed(values, v))
    }
}

/// The shape and the lengths, not the elements.
impl<B: Size, KV: Axis, Cap: Size, D: Size, V: Axis, E: Float> Debug
    for KvCache<B, KV, Cap, D, V, E>
{
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvCache")
            .field("shape", &self.shape)
            .field("values", &self.values)
            .field("layers", &self.layers())
            .field("lengths", &self.lengths())
            .finish()
    }
}
