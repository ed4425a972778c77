//! The storage of a cache, without its shape in the type.

use crate::element::Float;
use crate::error::{Error, Result};
use crate::kernel::assign::{assign, move_to_front};
use crate::kernel::layout::{View, checked_count};
use crate::tensor::AnyTensor;

/// Keys and values of all layers, and how many positions of each sample they hold.
#[derive(Clone)]
pub(super) struct Store<E> {
    batch: usize,
    /// Positions that are kept at most.
    capacity: usize,
    /// Of a ring: how many keys a query sees at most, its own position included.
    window: Option<usize>,
    /// How many positions each sample has had: one number also where there is no sample.
    lengths: Vec<usize>,
    /// The oldest position that is kept: 0 but in a ring.
    first: usize,
    layers: Vec<Layer<E>>,
}

/// Packed, over (batch, key/value heads, room, width). The room is the capacity, in a ring twice that.
#[derive(Clone)]
struct Layer<E> {
    keys: AnyTensor<E>,
    values: AnyTensor<E>,
    /// The position that lies at the start of the room.
    base: usize,
}

impl<E: Float> Store<E> {
    /// An empty store for `[batch, heads, capacity, width of a key, width of a value]`.
    pub(super) fn try_new(sizes: [usize; 5], layers: usize, window: Option<usize>) -> Result<Self> {
        let [batch, heads, capacity, key, value] = sizes;
        if let Some(window) = window.filter(|window| !(1..=capacity).contains(window)) {
            return Err(Error::value(format!(
                "a window of {window} keys in a ring of {capacity} positions, expected 1 to {capacity}"
            )));
        }
        let room = match window {
            Some(_) => {
                capacity.checked_mul(2).ok_or_else(|| Error::count_overflow(&[2, capacity]))?
            }
            None => capacity,
        };
        // One count for all of it: a sum over layers cannot overflow then.
        let both = key.checked_add(value).ok_or_else(|| Error::size_overflow("+", &key, &value))?;
        let all = [layers, batch, heads, room, both];
        checked_count(&all).ok_or_else(|| Error::count_overflow(&all))?;
        let empty = || -> Result<Layer<E>> {
            let block = |width| zeros([batch, heads, room, width]);
            Ok(Layer { keys: block(key)?, values: block(value)?, base: 0 })
        };
        // Counts of what is empty are from outside too.
        check_memory::<usize>(batch)?;
        check_memory::<Layer<E>>(layers)?;
        Ok(Store {
            batch,
            capacity,
            window,
            lengths: vec![0; batch.max(1)],
            first: 0,
            layers: (0..layers).map(|_| empty()).collect::<Result<_>>()?,
        })
    }

    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    pub(super) fn is_ring(&self) -> bool {
        self.window.is_some()
    }

    /// How many positions each sample has had.
    pub(super) fn lengths(&self) -> &[usize] {
        &self.lengths[..self.batch]
    }

    /// The length that all samples have.
    pub(super) fn length(&self) -> Result<usize> {
        match self.lengths.iter().all(|length| *length == self.lengths[0]) {
            true => Ok(self.lengths[0]),
            false => Err(Error::shape(format!(
                "expected samples of one length, found {:?}; a ragged step takes them",
                self.lengths()
            ))),
        }
    }

    pub(super) fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// The window, or as many keys as there can be.
    pub(super) fn window(&self) -> usize {
        self.window.unwrap_or(usize::MAX)
    }

    /// The first position that a query at `start` sees.
    pub(super) fn first_seen_from(&self, start: usize) -> usize {
        self.first.max((start + 1).saturating_sub(self.window()))
    }

    /// Whether so many positions more have room.
    pub(super) fn check_room(&self, length: usize, new: usize) -> Result<()> {
        let (capacity, fits) = match self.window {
            Some(_) => (self.capacity, new <= self.capacity && length.checked_add(new).is_some()),
            None => (self.capacity, new <= self.capacity - length),
        };
        match (fits, self.window) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(Error::shape(format!(
                "a ring of {capacity} positions takes at most {capacity} in a step, not {new}"
            ))),
            (false, None) => Err(Error::shape(format!(
                "a cache of {capacity} positions that holds {length} has room for {} more, not for {new}",
                capacity - length
            ))),
        }
    }

    pub(super) fn check_layer(&self, layer: usize) -> Result<()> {
        if layer < self.layers() {
            return Ok(());
        }
        let layers = self.layers();
        Err(Error::index(format!("expected a layer below {layers}, found layer {layer}")))
    }

    /// Writes the first entries of `keys` and `values`, as many as `new` says of each sample, behind the
    /// sample's positions. The caller has checked layer and room.
    pub(super) fn write(&mut self, layer: usize, [keys, values]: [View<E>; 2], new: Counts) {
        let (first, last) = (self.first, self.longest());
        let layer = &mut self.layers[layer];
        let room = layer.keys.dims()[2];
        // The samples of a ring have one length.
        if self.window.is_some() && last + new.of(0) - layer.base > room {
            layer.move_to_front(first, last - first);
        }
        let base = layer.base;
        for (tensor, from) in [(&mut layer.keys, keys), (&mut layer.values, values)] {
            let (data, to) = tensor.owned();
            for sample in 0..self.batch {
                let (start, count) = (self.lengths[sample] - base, new.of(sample));
                let layout = from.layout.at(0, sample).sliced(1, 0, count);
                let to = to.at(0, sample).sliced(1, start, count);
                assign(View { layout, ..from }, data, &to);
            }
        }
    }

    /// Keys and values of the positions from `first` on, as many as `count`. Moves no data.
    pub(super) fn view(&self, layer: usize, first: usize, count: usize) -> [AnyTensor<E>; 2] {
        let layer = &self.layers[layer];
        [&layer.keys, &layer.values]
            .map(|tensor| tensor.viewed(tensor.layout().sliced(2, first - layer.base, count)))
    }

    /// Each sample has so many positions more.
    pub(super) fn grow(&mut self, new: Counts) {
        for (sample, length) in self.lengths.iter_mut().enumerate() {
            *length += new.of(sample);
        }
        if self.is_ring() {
            self.first = self.first.max(self.lengths[0].saturating_sub(self.capacity));
        }
    }

    /// Each sample forgets what is behind so many positions.
    pub(super) fn truncate(&mut self, lengths: Counts) -> Result<()> {
        for (sample, length) in self.lengths.iter().enumerate() {
            let wanted = lengths.of(sample);
            if wanted > *length {
                return Err(Error::shape(format!(
                    "cannot rewind sample {sample} to {wanted} positions, it has {length}"
                )));
            }
            let needed = (wanted + 1).saturating_sub(self.window());
            if needed < self.first {
                return Err(Error::shape(format!(
                    "cannot rewind to {wanted} positions: what follows sees position {needed}, the \
                     ring keeps those from {} on",
                    self.first
                )));
            }
        }
        for (sample, length) in self.lengths.iter_mut().enumerate() {
            *length = lengths.of(sample);
        }
        Ok(())
    }

    /// Sample i becomes what sample `from[i]` was.
    pub(super) fn reorder(&mut self, from: &[usize]) -> Result<()> {
        if from.len() != self.batch {
            return Err(Error::shape(format!(
                "expected an index for each of {} samples, found {}",
                self.batch,
                from.len()
            )));
        }
        if let Some((place, index)) = from.iter().enumerate().find(|(_, i)| **i >= self.batch) {
            return Err(Error::index(format!(
                "index {index}, at {place}, is outside of a batch of {}",
                self.batch
            )));
        }
        if from.iter().enumerate().all(|(to, from)| to == *from) {
            return Ok(());
        }
        let (first, count) = (self.first, self.longest() - self.first);
        self.layers.iter_mut().for_each(|layer| layer.reorder(from, first, count));
        self.lengths = from.iter().map(|&from| self.lengths[from]).collect();
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.lengths.fill(0);
        self.first = 0;
        self.layers.iter_mut().for_each(|layer| layer.base = 0);
    }
}

impl<E: Float> Layer<E> {
    /// Makes `first` the position at the start of the room; `count` positions from it on are kept.
    fn move_to_front(&mut self, first: usize, count: usize) {
        let from = first - self.base;
        for tensor in [&mut self.keys, &mut self.values] {
            let (data, layout) = tensor.owned();
            let [.., room, width] = *layout.dims else { unreachable!("a block has four axes") };
            move_to_front(data, room * width, from * width, count * width);
        }
        self.base = first;
    }

    /// Copies `count` positions from `first` on, sample by sample, to new storage.
    fn reorder(&mut self, from: &[usize], first: usize, count: usize) {
        let start = first - self.base;
        for tensor in [&mut self.keys, &mut self.values] {
            let mut copy =
                AnyTensor::from_packed(tensor.dims(), vec![E::default(); tensor.count()]);
            let (data, layout) = copy.owned();
            for (to, &from) in from.iter().enumerate() {
                let old = tensor.layout().at(0, from).sliced(1, start, count);
                let new = layout.at(0, to).sliced(1, start, count);
                assign(View { layout: old, ..tensor.view() }, data, &new);
            }
            *tensor = copy;
        }
    }
}

/// A number for each sample.
#[derive(Clone, Copy)]
pub(super) enum Counts<'a> {
    Same(usize),
    Each(&'a [usize]),
}

impl Counts<'_> {
    /// Of no samples, 0.
    pub(super) fn of(self, sample: usize) -> usize {
        match self {
            Counts::Same(count) => count,
            Counts::Each(counts) => counts.get(sample).copied().unwrap_or(0),
        }
    }
}

/// A block of zeros, or an error where there is no memory for one. The caller has checked the count.
fn zeros<E: Float>(dims: [usize; 4]) -> Result<AnyTensor<E>> {
    let count = checked_count(&dims).ok_or_else(|| Error::count_overflow(&dims))?;
    check_memory::<E>(count)?;
    // Taken as zeros, which costs nothing yet.
    Ok(AnyTensor::from_packed(&dims, vec![E::default(); count]))
}

/// Whether there is memory for so many: asked for beforehand, because a `Vec` ends the program where
/// there is none.
fn check_memory<T>(count: usize) -> Result<()> {
    Vec::<T>::new()
        .try_reserve_exact(count)
        .map_err(|_| Error::shape(format!("no memory for a cache of {count} elements or parts")))
}
