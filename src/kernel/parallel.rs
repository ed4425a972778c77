//! Work cut into pieces, run by whatever thread pool the caller is in.
//!
//! The pieces are fixed by sizes alone, never by the number of threads, and each piece writes its
//! own part of the output: so the bits are the same for one thread and for seven. Work too small to
//! be worth handing over stays on the calling thread. This file is the only one that uses rayon.

use rayon::prelude::*;

/// Below this many scalar operations, handing work to other threads costs more than it saves.
const WORTH_SHARING: usize = 1 << 16;

/// Calls `f` with every number below `tasks`. `work` is the number of scalar operations in all of
/// them together, roughly.
pub(crate) fn for_each(tasks: usize, work: usize, f: impl Fn(usize) + Sync) {
    if tasks <= 1 || work < WORTH_SHARING {
        (0..tasks).for_each(f);
    } else {
        (0..tasks).into_par_iter().with_max_len(1).for_each(&f);
    }
}

/// Calls `f` with every chunk of `len` elements (the last may be shorter) and its number.
pub(crate) fn for_each_chunk<T: Send>(
    out: &mut [T],
    len: usize,
    work: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let len = len.max(1);
    if out.len() <= len || work < WORTH_SHARING {
        out.chunks_mut(len).enumerate().for_each(|(i, chunk)| f(i, chunk));
    } else {
        out.par_chunks_mut(len).enumerate().with_max_len(1).for_each(|(i, chunk)| f(i, chunk));
    }
}

/// Calls `f` with the chunks of two outputs that belong together.
pub(crate) fn for_each_chunk_pair<T: Send, U: Send>(
    (first, first_len): (&mut [T], usize),
    (second, second_len): (&mut [U], usize),
    work: usize,
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let (first_len, second_len) = (first_len.max(1), second_len.max(1));
    if first.len() <= first_len || work < WORTH_SHARING {
        let chunks = first.chunks_mut(first_len).zip(second.chunks_mut(second_len));
        chunks.enumerate().for_each(|(i, (a, b))| f(i, a, b));
    } else {
        let chunks = first.par_chunks_mut(first_len).zip(second.par_chunks_mut(second_len));
        chunks.enumerate().with_max_len(1).for_each(|(i, (a, b))| f(i, a, b));
    }
}

/// Calls `f` with the pieces of `len` elements (the last may be shorter) of buffers of one length that
/// belong together, and where they start.
pub(crate) fn for_each_piece<T: Send, const N: usize>(
    buffers: [&mut [T]; N],
    len: usize,
    work: usize,
    f: &(impl Fn(usize, [&mut [T]; N]) + Sync),
) {
    split_pieces(buffers, 0, len.max(1), work >= WORTH_SHARING, f);
}

/// Halves the pieces until one is left. `start` is where these begin.
fn split_pieces<T: Send, const N: usize>(
    buffers: [&mut [T]; N],
    start: usize,
    len: usize,
    shared: bool,
    f: &(impl Fn(usize, [&mut [T]; N]) + Sync),
) {
    let pieces = buffers.first().map_or(0, |buffer| buffer.len()).div_ceil(len);
    match pieces {
        0 => {}
        1 => f(start, buffers),
        _ => {
            let middle = pieces / 2 * len;
            let mut halves = buffers.map(|buffer| buffer.split_at_mut(middle));
            let first = halves.each_mut().map(|(first, _)| std::mem::take(first));
            let second = halves.map(|(_, second)| second);
            let first = || split_pieces(first, start, len, shared, f);
            let second = || split_pieces(second, start + middle, len, shared, f);
            if shared {
                rayon::join(first, second);
            } else {
                first();
                second();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_buffers_belong_together_and_cover_them() {
        for work in [0, usize::MAX] {
            let (mut a, mut b) = ([0; 11], [0; 11]);
            for_each_piece([&mut a, &mut b], 4, work, &|start, [a, b]| {
                assert_eq!(a.len(), b.len());
                for (i, (a, b)) in a.iter_mut().zip(b).enumerate() {
                    (*a, *b) = (start + i, start);
                }
            });
            assert_eq!(a, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
            assert_eq!(b, [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8]);
        }
        for_each_piece::<u8, 2>([&mut [], &mut []], 4, usize::MAX, &|_, _| unreachable!());
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
