//! Elements in and out of vectors: made wide as they are loaded, rounded as they are stored.

use super::{MAX_LANES, Vector};
use crate::element::Float;
use crate::kernel::scratch::LINE;
use half::{bf16, f16};
use num_traits::Zero;

/// An element as vectors of `W` are made of it, `LANES` at a time.
///
/// # Safety
///
/// The processor has the instruction set of `V`; `LANES` elements can be read, or written.
pub trait Lane<W>: Sized {
    unsafe fn load<V: Vector<Scalar = W>>(from: *const Self) -> V;
    unsafe fn store<V: Vector<Scalar = W>>(vector: V, to: *mut Self);
}

macro_rules! lane {
    ($($T:ident as $W:ident: $load:ident, $store:ident;)+) => { $(
        impl Lane<$W> for $T {
            #[inline(always)]
            unsafe fn load<V: Vector<Scalar = $W>>(from: *const Self) -> V {
                // SAFETY: the caller's.
                unsafe { V::$load(from) }
            }
            #[inline(always)]
            unsafe fn store<V: Vector<Scalar = $W>>(vector: V, to: *mut Self) {
                // SAFETY: the caller's.
                unsafe { vector.$store(to) }
            }
        }
    )+ };
}
lane! {
    f32 as f32: load, store;
    f64 as f64: load, store;
    f16 as f32: load_f16, store_f16;
    bf16 as f32: load_bf16, store_bf16;
}

/// The `LANES` elements at `from`.
///
/// # Safety
///
/// The processor has the instruction set of `V`; the elements can be read.
#[inline(always)]
pub(crate) unsafe fn load<E: Float, V: Vector<Scalar = E::Wide>>(from: *const E) -> V {
    // SAFETY: the caller's.
    unsafe { E::load(from) }
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
    // SAFETY: the caller's; no vector has more lanes than there are.
    unsafe {
        if E::as_wide(&[]).is_none() {
            let mut elements = [E::default(); MAX_LANES];
            let to = elements.as_mut_ptr();
            in_powers_of_two(count, |i| to.add(i).write(from.add(i).read()));
            E::load::<V>(to).store(lanes.as_mut_ptr());
            lanes[count..].fill(fill);
        } else {
            let to = lanes.as_mut_ptr();
            in_powers_of_two(count, |i| to.add(i).write(from.add(i).read().wide()));
        }
        V::load(lanes.as_ptr())
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
    unsafe { E::store(vector, to) }
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
    let mut elements = [E::default(); MAX_LANES];
    // SAFETY: the caller's; no vector has more lanes than there are.
    unsafe {
        E::store(vector, elements.as_mut_ptr());
        let from = elements.as_ptr();
        in_powers_of_two(count, |i| to.add(i).write(from.add(i).read()));
    }
}

/// Writes the elements of `from` to the start of `to`, wide.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn widen<E: Float, V: Vector<Scalar = E::Wide>>(from: &[E], to: &mut [E::Wide]) {
    // SAFETY: the caller's; there is room for all.
    unsafe { widen_to::<E, V>(from, to[..from.len()].as_mut_ptr()) }
}

/// As [`widen`], to memory of any value.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there is room for as many numbers at `to`.
#[inline(always)]
pub(crate) unsafe fn widen_to<E: Float, V: Vector<Scalar = E::Wide>>(from: &[E], to: *mut E::Wide) {
    let (n, from) = (from.len(), from.as_ptr());
    let whole = n / V::LANES * V::LANES;
    // SAFETY: the caller's.
    unsafe {
        for at in (0..whole).step_by(V::LANES) {
            E::load::<V>(from.add(at)).store(to.add(at));
        }
        if whole < n {
            let rest = load_first::<E, V>(from.add(whole), n - whole, E::Wide::zero());
            store_first::<E::Wide, V>(rest, n - whole, to.add(whole));
        }
    }
}

/// Writes the numbers of `from` to memory of any value, each rounded.
///
/// # Safety
///
/// The processor has the instruction set of `V`; there is room for as many elements at `to`.
#[inline(always)]
pub(crate) unsafe fn narrow_to<E: Float, V: Vector<Scalar = E::Wide>>(
    from: &[E::Wide],
    to: *mut E,
) {
    let (n, from) = (from.len(), from.as_ptr());
    let whole = n / V::LANES * V::LANES;
    // SAFETY: the caller's.
    unsafe {
        for at in (0..whole).step_by(V::LANES) {
            E::store(V::load(from.add(at)), to.add(at));
        }
        if whole < n {
            let rest = load_first::<E::Wide, V>(from.add(whole), n - whole, E::Wide::zero());
            store_first(rest, n - whole, to.add(whole));
        }
    }
}

/// Asks for the cache lines of the `count` elements at `from`, which may be anywhere, to be fetched.
///
/// # Safety
///
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn prefetch<E, V: Vector>(from: *const E, count: usize) {
    for at in (0..count).step_by(LINE / size_of::<E>()) {
        // SAFETY: the caller's.
        unsafe { V::prefetch(from.wrapping_add(at).cast()) }
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
