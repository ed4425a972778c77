//! One step of decoding, all samples together.

use super::KvCache;
use super::store::{Counts, Store};
use crate::axis::{Axis, Batch, HeadDim, Key, Query, Seq};
use crate::element::Float;
use crate::error::{Error, Result};
use crate::size::Size;
use crate::tensor::{AnyTensor, Tensor};

/// A step of a [`KvCache`]: `T` new positions, which each layer appends once before the step is
/// committed. Begun by [`KvCache::begin`]; dropped without a commit, it leaves the cache as it was.
///
/// # Shapes
/// Positions are counted from 0. The new ones are `start()`, …, `start() + T − 1`; key j of a view has
/// the position `first_position() + j`, which is j but in a ring.
///
/// # Compile errors
/// `cached_keys_must_not_be_the_new_ones`.
#[must_use = "a step that is not committed leaves the cache as it was"]
pub struct CacheStep<'c, B, KV, Cap, D, V, T, E> {
    cache: &'c mut KvCache<B, KV, Cap, D, V, E>,
    new: Seq<T>,
    start: usize,
    written: Written,
}

impl<'c, B, KV, Cap, D, V, T, E> CacheStep<'c, B, KV, Cap, D, V, T, E>
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
    ) -> Result<CacheStep<'c, B, KV, Cap, D, V, T, E>> {
        let start = cache.store.length()?;
        cache.store.check_room(start, new.0.get())?;
        let written = Written::none(&cache.store);
        Ok(CacheStep { cache, new, start, written })
    }

    /// The position of the first new token: how many there were before.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The positions of the new tokens, as rotary embeddings need them.
    pub fn positions(&self) -> Tensor<(Seq<T>,), usize> {
        Tensor::from_fn_in((self.new,), |at| self.start + at[0])
    }

    /// The position of the first key that a view has.
    pub fn first_position(&self) -> usize {
        self.cache.store.first_seen_from(self.start)
    }

    /// How many keys a view has: those before that the new positions see, and the new ones.
    pub fn keys(&self) -> usize {
        self.start - self.first_position() + self.new.0.get()
    }

    /// Which keys each new position sees: those up to its own, in a ring those of its window. In a step
    /// of one position that is all of them; without a ring it is what [`Causal`](crate::Causal) says.
    ///
    /// # Errors
    /// Where K is not [`keys`](Self::keys).
    pub fn mask<K: Size>(&self, keys: Key<K>) -> Result<Tensor<(Query<T>, Key<K>), bool>> {
        check_keys(keys, self.keys())?;
        let (first, window) = (self.first_position(), self.cache.store.window());
        Ok(Tensor::from_fn_in((Query(self.new.0), keys), |at| {
            let (query, key) = (self.start + at[0], first + at[1]);
            key <= query && query - key < window
        }))
    }

    /// Writes a layer's keys and values of the new positions behind those before.
    ///
    /// # Errors
    /// Where there is no such layer, or it has been written in this step; where keys or values are recorded,
    /// as those that a layer makes under [`Train`](crate::Train) are: a cache keeps numbers, and no gradient
    /// would come through it. [`detach`](Tensor::detach) says that none is wanted.
    ///
    /// # Compile errors
    /// `cache_must_be_of_the_batch`, `cache_must_have_the_kv_heads`, `cache_must_have_the_head_dim`.
    pub fn append(
        &mut self,
        layer: usize,
        keys: &Tensor<(Batch<B>, KV, Key<T>, HeadDim<D>), E>,
        values: &Tensor<(Batch<B>, KV, Key<T>, V), E>,
    ) -> Result<()> {
        let new = Counts::Same(self.new.0.get());
        self.written.write(layer, &mut self.cache.store, [keys.any(), values.any()], new)
    }

    /// A layer's keys and values, those before and the new ones. Moves no data.
    ///
    /// # Errors
    /// Where the layer has not been written in this step, or K is not [`keys`](Self::keys).
    pub fn view<K: Size>(
        &self,
        layer: usize,
        keys: Key<K>,
    ) -> Result<(Tensor<(Batch<B>, KV, Key<K>, HeadDim<D>), E>, Tensor<(Batch<B>, KV, Key<K>, V), E>)>
    {
        self.written.check(layer, &self.cache.store)?;
        check_keys(keys, self.keys())?;
        Ok(self.cache.kept(layer, self.first_position(), keys))
    }

    /// Keeps the new positions.
    ///
    /// # Errors
    /// Where a layer has not been written; the cache is as it was before the step then.
    pub fn commit(self) -> Result<()> {
        self.written.check_all()?;
        self.cache.store.grow(Counts::Same(self.new.0.get()));
        Ok(())
    }
}

/// Which layers a step has written.
pub(super) struct Written(Vec<bool>);

impl Written {
    pub(super) fn none<E: Float>(store: &Store<E>) -> Self {
        Written(vec![false; store.layers()])
    }

    /// Writes a layer's new keys and values, and notes it.
    pub(super) fn write<E: Float>(
        &mut self,
        layer: usize,
        store: &mut Store<E>,
        keys_and_values: [&AnyTensor<E>; 2],
        new: Counts,
    ) -> Result<()> {
        store.check_layer(layer)?;
        if self.0[layer] {
            return Err(Error::value(format!("layer {layer} has been written in this step")));
        }
        if keys_and_values.into_iter().any(AnyTensor::is_recorded) {
            return Err(Error::value(
                "keys or values that are recorded for gradients, which a cache does not keep; \
                 `detach()` them, or attend to them without a cache",
            ));
        }
        self.0[layer] = true;
        store.write(layer, keys_and_values.map(AnyTensor::view), new);
        Ok(())
    }

    pub(super) fn check<E: Float>(&self, layer: usize, store: &Store<E>) -> Result<()> {
        store.check_layer(layer)?;
        if !self.0[layer] {
            return Err(Error::value(format!("layer {layer} has not been written in this step")));
        }
        Ok(())
    }

    pub(super) fn check_all(&self) -> Result<()> {
        match self.0.iter().position(|written| !written) {
            None => Ok(()),
            Some(layer) => Err(Error::value(format!(
                "layer {layer} has not been written in this step, which cannot be committed"
            ))),
        }
    }
}

/// Whether the caller's size is that of the views.
pub(super) fn check_keys<K: Size>(keys: Key<K>, expected: usize) -> Result<()> {
    match keys.0.get() == expected {
        true => Ok(()),
        false => Err(Error::shape(format!("expected {expected} keys, found {}", keys.0.get()))),
    }
}
