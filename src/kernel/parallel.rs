//! Work cut into pieces, run by whatever thread pool the caller is in.
//!
//! The pieces are fixed by sizes alone, never by the number of threads, and each piece writes its
//! own part of the output: so the bits are the same for one thread and for seven. Work too small to
//! be worth handing over stays on the calling thread. This file is the only one that uses rayon.

use rayon::prelude::*;
use std::marker::PhantomData;

/// Below this many scalar operations, handing work to other threads costs more than it saves.
const WORTH_SHARING: usize = 1 << 16;

/// Elements in one piece of work, unless a single line is longer.
pub(super) const PIECE: usize = 1 << 14;

/// Lines of `len` elements in one piece of work.
pub(super) fn lines_in_piece(len: usize) -> usize {
    (PIECE / len.max(1)).max(1)
}

/// Calls `f` with every number below `tasks`. `work` is the number of scalar operations in all of
/// them together, roughly.
pub(crate) fn for_each(tasks: usize, work: usize, f: impl Fn(usize) + Sync) {
    if tasks <= 1 || work < WORTH_SHARING {
        (0..tasks).for_each(f);
    } else {
        share(tasks, &f);
    }
}

/// Knows nothing of what is called, so that what rayon makes of it is compiled once, in this crate, and not
/// for each kernel in the crate of whoever uses them.
#[inline(never)]
fn share(tasks: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..tasks).into_par_iter().with_max_len(1).for_each(f);
}

/// Calls `f` with every chunk of `len` elements (the last may be shorter) and its number.
pub(crate) fn for_each_chunk<T: Send>(
    out: &mut [T],
    len: usize,
    work: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let chunks = Chunks::of(out, len);
    for_each(chunks.count(), work, |i| {
        // SAFETY: each number below the count is given once.
        f(i, unsafe { chunks.at(i) });
    });
}

/// Calls `f` with the chunks of two outputs that belong together.
pub(crate) fn for_each_chunk_pair<T: Send, U: Send>(
    (first, first_len): (&mut [T], usize),
    (second, second_len): (&mut [U], usize),
    work: usize,
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let (first, second) = (Chunks::of(first, first_len), Chunks::of(second, second_len));
    assert_eq!(first.count(), second.count());
    for_each(first.count(), work, |i| {
        // SAFETY: each number below the count of both is given once.
        unsafe { f(i, first.at(i), second.at(i)) };
    });
}

/// Calls `f` with the pieces of `len` elements (the last may be shorter) of buffers of one length that
/// belong together, and where they start.
pub(crate) fn for_each_piece<T: Send, const N: usize>(
    buffers: [&mut [T]; N],
    len: usize,
    work: usize,
    f: impl Fn(usize, [&mut [T]; N]) + Sync,
) {
    let buffers = buffers.map(|buffer| Chunks::of(buffer, len));
    let count = buffers.iter().map(Chunks::count).min().unwrap_or(0);
    for_each(count, work, |i| {
        // SAFETY: each number below all counts is given once.
        f(i * len.max(1), buffers.each_ref().map(|buffer| unsafe { buffer.at(i) }));
    });
}

/// A slice as chunks that threads share out among themselves.
struct Chunks<'a, T> {
    all: *mut T,
    len: usize,
    /// Elements of a chunk, 1 at least.
    chunk: usize,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: all that threads do with one is to take chunks, each once, and elements can be sent.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    fn of(all: &'a mut [T], chunk: usize) -> Self {
        let (len, all) = (all.len(), all.as_mut_ptr());
        Chunks { all, len, chunk: chunk.max(1), borrowed: PhantomData }
    }

    fn count(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    /// Chunk `i`.
    ///
    /// # Safety
    ///
    /// There is one of that number, and it is asked for once.
    #[allow(clippy::mut_from_ref, reason = "each part of the slice is lent once")]
    unsafe fn at(&self, i: usize) -> &'a mut [T] {
        let start = i * self.chunk;
        let len = self.chunk.min(self.len - start);
        // SAFETY: it lies within the slice, which is borrowed for `'a`, and nothing else has this part.
        unsafe { std::slice::from_raw_parts_mut(self.all.add(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_buffers_belong_together_and_cover_them() {
        for work in [0, usize::MAX] {
            let (mut a, mut b) = ([0; 11], [0; 11]);
            for_each_piece([&mut a, &mut b], 4, work, |start, [a, b]| {
                assert_eq!(a.len(), b.len());
                for (i, (a, b)) in a.iter_mut().zip(b).enumerate() {
                    (*a, *b) = (start + i, start);
                }
            });
            assert_eq!(a, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
            assert_eq!(b, [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8]);
        }
        for_each_piece::<u8, 2>([&mut [], &mut []], 4, usize::MAX, |_, _| unreachable!());
    }

    #[test]
    fn chunks_are_numbered_and_cover_the_output() {
        for work in [0, usize::MAX] {
            let mut out = vec![0; 10];
            for_each_chunk(&mut out, 4, work, |i, chunk| chunk.fill(i));
            assert_eq!(out, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
        }
    }

    #[test]
    fn nothing_to_do_is_done() {
        for_each(0, usize::MAX, |_| unreachable!());
        for_each_chunk::<u8>(&mut [], 0, usize::MAX, |_, _| unreachable!());
    }
}
