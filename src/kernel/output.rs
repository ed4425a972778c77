//! Results that are written once.
//!
//! `vec![0; n]` costs a pass over memory before a kernel makes the pass that counts. A result is
//! therefore allocated alone, handed to the kernel as memory of no value yet, and becomes a `Vec`
//! when every element has been written.

use super::parallel::for_each_chunk;
use std::mem::MaybeUninit;

/// The `len` elements that `write` writes.
///
/// # Safety
///
/// `write` initializes every element, unless it panics.
pub(crate) unsafe fn written<E: Copy>(
    len: usize,
    write: impl FnOnce(&mut [MaybeUninit<E>]),
) -> Vec<E> {
    let mut out = Vec::with_capacity(len);
    write(&mut out.spare_capacity_mut()[..len]);
    // SAFETY: the capacity is `len` or more, and the caller vouches for the elements.
    unsafe { out.set_len(len) };
    out
}

/// The `len` elements that `write` writes, chunk by chunk on all threads: as [`for_each_chunk`].
///
/// # Safety
///
/// `write` initializes every element of each chunk that it is called with, unless it panics.
pub(crate) unsafe fn written_in_chunks<E: Copy + Send>(
    len: usize,
    chunk: usize,
    work: usize,
    write: impl Fn(usize, &mut [MaybeUninit<E>]) + Sync,
) -> Vec<E> {
    // SAFETY: the chunks cover the output, and the caller vouches for each.
    unsafe { written(len, |out| for_each_chunk(out, chunk, work, write)) }
}

/// Memory that holds elements, to be written anew.
///
/// # Safety
///
/// What is written is initialized.
pub(super) unsafe fn place<E>(out: &mut [E]) -> &mut [MaybeUninit<E>] {
    let data = out.as_mut_ptr().cast();
    // SAFETY: the same memory, whose elements may also be none.
    unsafe { std::slice::from_raw_parts_mut(data, out.len()) }
}

/// Where elements are read and where what becomes of them goes: the same place. Both come from one borrow,
/// so neither ends the other.
pub(super) fn in_its_place<E>(elements: &mut [E]) -> (*const E, *mut E) {
    let to = elements.as_mut_ptr();
    (to.cast_const(), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_become_one_result() {
        for (len, chunk) in [(0, 4), (1, 4), (8, 4), (10, 4), (1, 0)] {
            for work in [0, usize::MAX] {
                let write = |i, out: &mut [MaybeUninit<usize>]| {
                    out.iter_mut().enumerate().for_each(|(k, out)| _ = out.write(i * chunk + k));
                };
                // SAFETY: `write` writes all of each chunk.
                let out = unsafe { written_in_chunks(len, chunk, work, write) };
                assert_eq!(out, (0..len).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    #[should_panic = "half way"]
    fn a_panic_while_writing_leaves_nothing_behind() {
        let write = |out: &mut [MaybeUninit<u8>]| {
            out[0].write(1);
            panic!("half way");
        };
        // SAFETY: `write` panics.
        unsafe { written(2, write) };
    }
}
