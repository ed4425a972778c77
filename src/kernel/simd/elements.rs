//! Elements in and out of vectors: made wide as they are loaded, rounded as they are stored.

use super::{MAX_LANES, Vector};
use crate::element::Float;
use num_traits::Zero;

/// The `LANES` elements at `from`.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the elements can be read.
#[inline(always)]
pub(crate) unsafe fn load<E: Float, V: Vector<Scalar = E::Wide>>(from: *const E) -> V {
    // SAFETY: the caller's.
    unsafe { load_first(from, V::LANES, E::Wide::zero()) }
}

/// The `count` elements at `from`, at most `LANES`, and `fill` in the other lanes.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the elements can be read.
#[inline(always)]
pub(crate) unsafe fn load_first<E: Float, V: Vector<Scalar = E::Wide>>(
    from: *const E,
    count: usize,
    fill: E::Wide,
) -> V {
    debug_assert!(count <= V::LANES);
    let mut lanes = [fill; MAX_LANES];
    let to = lanes.as_mut_ptr();
    // SAFETY: the caller's; no vector has more lanes than there are.
    unsafe {
        in_powers_of_two(count, |i| to.add(i).write(from.add(i).read().wide()));
        V::load(to)
    }
}

/// Writes all lanes to `to`.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `LANES` elements can be written.
#[inline(always)]
pub(crate) unsafe fn store<E: Float, V: Vector<Scalar = E::Wide>>(vector: V, to: *mut E) {
    // SAFETY: the caller's.
    unsafe { store_first(vector, V::LANES, to) }
}

/// Writes the first `count` lanes to `to`.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `count` elements, at most `LANES`, can be written.
#[inline(always)]
pub(crate) unsafe fn store_first<E: Float, V: Vector<Scalar = E::Wide>>(
    vector: V,
    count: usize,
    to: *mut E,
) {
    debug_assert!(count <= V::LANES);
    // SAFETY: the caller's; no vector has more lanes than there are.
    unsafe {
        let lanes = lanes(vector);
        let from = lanes.as_ptr();
        in_powers_of_two(count, |i| to.add(i).write(E::narrow(from.add(i).read())));
    }
}

/// Calls `f` with every number below `count`, in runs of 16, 8, 4, 2 and 1: of runs of fixed lengths the
/// compiler makes a few instructions, of a run of any length a call that copies memory.
#[inline(always)]
fn in_powers_of_two(count: usize, mut f: impl FnMut(usize)) {
    let (mut done, mut run) = (0, MAX_LANES);
    while run > 0 {
        if count & run != 0 {
            (done..done + run).for_each(&mut f);
            done += run;
        }
        run /= 2;
    }
}

/// The lanes of a vector, the first `LANES` of the result.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn lanes<V: Vector>(vector: V) -> [V::Scalar; MAX_LANES] {
    let mut lanes = [V::Scalar::zero(); MAX_LANES];
    // SAFETY: the caller's; no vector has more lanes.
    unsafe { vector.store(lanes.as_mut_ptr()) };
    lanes
}

/// The sum of all lanes, by halves.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn sum_of_lanes<V: Vector>(vector: V) -> V::Scalar {
    // SAFETY: the caller's.
    let mut lanes = unsafe { lanes(vector) };
    let mut half = V::LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}
