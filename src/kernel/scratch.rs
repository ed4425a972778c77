//! Memory that a thread keeps for its next piece of work, and memory aligned for vectors.
//!
//! Allocating and touching new pages costs more than many a kernel, so each thread keeps some buffers
//! for each type. A piece of work takes one, and puts it back when done; work that starts within work
//! takes the next. Buffers that are longer than [`KEPT`] are not kept.

use half::{bf16, f16};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// The most bytes of a buffer that a thread keeps.
pub(super) const KEPT: usize = 8 << 20;

/// A number that threads keep buffers of.
pub trait Scratch: Copy + Default + 'static {
    /// The calling thread's buffers; the last is taken first.
    fn buffers() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>>;
}

macro_rules! scratch {
    ($($T:ty),+) => { $(
        impl Scratch for $T {
            fn buffers() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>> {
                thread_local!(static BUFFERS: RefCell<Vec<Vec<$T>>> = const { RefCell::new(Vec::new()) });
                &BUFFERS
            }
        }
    )+ };
}
scratch!(f32, f64, f16, bf16);

/// Bytes in a cache line, and in the widest vector.
pub(super) const LINE: usize = 64;

/// `count` elements, and those that pad them up to a cache line.
pub(super) fn padded<R>(count: usize) -> usize {
    count.next_multiple_of(LINE / size_of::<R>())
}

/// Splits `count` elements, and those that pad them, off the front of a buffer.
pub(super) fn split<'a, R>(buffer: &mut &'a mut [R], count: usize) -> &'a mut [R] {
    let (front, rest) = std::mem::take(buffer).split_at_mut(padded::<R>(count));
    *buffer = rest;
    &mut front[..count]
}

/// Elements that start on a cache line.
#[derive(Debug)]
pub(super) struct Aligned<E> {
    buffer: Vec<E>,
    start: usize,
    len: usize,
}

impl<E: Copy + Default> Aligned<E> {
    pub(super) fn new(len: usize) -> Self {
        Self::within(vec![E::default(); len + LINE / size_of::<E>()], len)
    }

    fn within(buffer: Vec<E>, len: usize) -> Self {
        let start = buffer.as_ptr().align_offset(LINE);
        Aligned { buffer, start, len }
    }
}

impl<E: Copy + Default> Clone for Aligned<E> {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<E> Deref for Aligned<E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        &self.buffer[self.start..self.start + self.len]
    }
}

impl<E> DerefMut for Aligned<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.buffer[self.start..self.start + self.len]
    }
}

/// A buffer of the calling thread, until dropped: numbers of any value, aligned as [`Aligned`].
pub(super) struct Spare<R: Scratch>(Aligned<R>);

impl<R: Scratch> Spare<R> {
    pub(super) fn take(len: usize) -> Self {
        let needed = len + LINE / size_of::<R>();
        if needed > KEPT / size_of::<R>() {
            return Spare(Aligned::new(len));
        }
        let mut buffer = R::buffers().with_borrow_mut(Vec::pop).unwrap_or_default();
        if buffer.len() < needed {
            buffer = vec![R::default(); needed.next_power_of_two()];
        }
        Spare(Aligned::within(buffer, len))
    }
}

impl<R: Scratch> Drop for Spare<R> {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0.buffer);
        if buffer.len() * size_of::<R>() <= KEPT {
            // At a thread's end its buffers may be gone already.
            let _ = R::buffers().try_with(|buffers| buffers.borrow_mut().push(buffer));
        }
    }
}

impl<R: Scratch> Deref for Spare<R> {
    type Target = [R];
    fn deref(&self) -> &[R] {
        &self.0
    }
}

impl<R: Scratch> DerefMut for Spare<R> {
    fn deref_mut(&mut self) -> &mut [R] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_may_nest() {
        let mut outer = Spare::<f32>::take(100);
        outer.fill(1.0);
        for _ in 0..2 {
            let mut inner = Spare::<f32>::take(1000);
            inner.fill(2.0);
            assert_eq!(inner.as_ptr().addr() % LINE, 0);
        }
        assert!(outer.iter().all(|&x| x == 1.0));
        drop(Spare::<f32>::take((KEPT >> 2) + 1));
        let kept = f32::buffers().with_borrow(|buffers| buffers.iter().map(Vec::len).max());
        assert!(kept.is_some_and(|longest| longest <= KEPT >> 2), "{kept:?}");
        let mut rest = &mut outer[..];
        let (first, second) = (split(&mut rest, 3), split(&mut rest, 16));
        assert_eq!((first.len(), second.len(), second.as_ptr().addr() % LINE), (3, 16, 0));
        let copy = Aligned::<f32>::new(5).clone();
        assert_eq!((copy.len(), copy.as_ptr().addr() % LINE), (5, 0));
    }
}
