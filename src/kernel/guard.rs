//! Operands and outputs that end where readable memory ends, or start where it starts: a kernel that
//! reads or writes one element too many does not pass these tests, it dies.

use super::attention::{Band, Diagonal, Mask, Offset, Out, Settings, Sums, attention_to};
use super::elementwise::{map, zip};
use super::gemm::{Epilogue, gemm, gemm_into, gemm_packed, pack_b};
use super::layout::{Layout, View};
use super::norm::{Norm, normalized};
use super::simd::Isa;
use super::softmax::Softmax::{Logarithms, Weights};
use super::softmax::softmax;
use super::testing::{Block, Rng, bits};
use crate::element::Element;
use std::ops::{Deref, DerefMut};

/// Where the forbidden page lies.
#[derive(Clone, Copy, Debug)]
enum Edge {
    Before,
    Behind,
}

const EDGES: [Edge; 2] = [Edge::Before, Edge::Behind];

/// A copy of elements beside a page that can be neither read nor written.
struct Guarded<E> {
    pages: *mut libc::c_void,
    bytes: usize,
    start: *mut E,
    len: usize,
}

impl<E: Element> Guarded<E> {
    fn of(elements: &[E], edge: Edge) -> Self {
        // SAFETY: asks the system for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let used = size_of_val(elements).next_multiple_of(page).max(page);
        let bytes = used + page;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new pages at a place of the system's choice.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, private, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED);
        let (guard, offset) = match edge {
            Edge::Before => (0, page),
            Edge::Behind => (used, used - size_of_val(elements)),
        };
        // SAFETY: the guard is one of the pages; the elements lie within the others, which start
        // aligned and end aligned.
        let start = unsafe {
            assert_eq!(libc::mprotect(pages.byte_add(guard), page, libc::PROT_NONE), 0);
            let start = pages.byte_add(offset).cast::<E>();
            start.copy_from_nonoverlapping(elements.as_ptr(), elements.len());
            start
        };
        Guarded { pages, bytes, start, len: elements.len() }
    }

    fn view(&self, layout: Layout) -> View<'_, E> {
        View { data: self, layout }
    }
}

impl<E> Drop for Guarded<E> {
    fn drop(&mut self) {
        // SAFETY: the pages that `of` asked for; nothing refers to them any more.
        unsafe { libc::munmap(self.pages, self.bytes) };
    }
}

impl<E> Deref for Guarded<E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        // SAFETY: `of` wrote these elements.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl<E> DerefMut for Guarded<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: as above, and the reference is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A block, and a copy of it beside a forbidden page.
fn guarded(block: &Block<f32>, edge: Edge) -> (Guarded<f32>, Layout) {
    (Guarded::of(&block.data, edge), block.layout)
}

#[test]
fn products_stay_within_their_operands_and_output() {
    let mut rng = Rng::new(50);
    for [m, k, n] in [
        [1, 1, 1],
        [1, 300, 17],
        [3, 5, 7],
        [7, 17, 33],
        [13, 261, 40],
        [25, 64, 16],
        [150, 30, 250],
        [160, 1030, 18],
    ] {
        let (a, b) = (rng.block::<f32>(&[m, k]), rng.block::<f32>(&[k, n]));
        let bias = rng.values::<f32>(n);
        let expected = bits(&gemm(a.view(), b.view(), Some(&bias)));
        for edge in EDGES {
            let bias = Guarded::of(&bias, edge);
            for kind in 0..3 {
                let (a, a_layout) = guarded(&a.scattered(kind), edge);
                let (b, b_layout) = guarded(&b.scattered((kind + 1) % 3), edge);
                let (a, b) = (a.view(a_layout), b.view(b_layout));
                assert_eq!(bits(&gemm(a, b, Some(&bias))), expected, "{m} {k} {n} {edge:?}");
            }
            let (a, a_layout) = guarded(&a, edge);
            let (b, b_layout) = guarded(&b, edge);
            let (a, b) = (a.view(a_layout), b.view(b_layout));
            assert_eq!(bits(&gemm_packed(a, &pack_b(b), Epilogue::bias(Some(&bias)))), expected);
            let mut out = Guarded::of(&vec![0f32; m * n], edge);
            let epilogue = Epilogue::bias(Some(&bias));
            gemm_into(Isa::best(), a, b, epilogue, &mut out, &Layout::packed(&[m, n]));
            assert_eq!(bits(&out), expected, "{m} {k} {n} {edge:?}");
        }
    }
}

#[test]
fn batches_of_products_stay_within_their_operands() {
    let mut rng = Rng::new(51);
    for [batch, m, k, n] in [[3, 5, 4, 6], [4, 4, 4, 4], [9, 17, 33, 19], [2, 64, 64, 64]] {
        let (a, b) = (rng.block::<f32>(&[batch, m, k]), rng.block::<f32>(&[batch, n, k]));
        let turned = |view: View<'_, f32>| gemm(a.view(), transposed(view), None);
        let expected = bits(&turned(b.view()));
        for edge in EDGES {
            let ((a, a_layout), (b, b_layout)) = (guarded(&a, edge), guarded(&b, edge));
            let y = gemm(a.view(a_layout), transposed(b.view(b_layout)), None);
            assert_eq!(bits(&y), expected);
        }
    }
}

fn transposed(view: View<'_, f32>) -> View<'_, f32> {
    View { layout: view.layout.transposed(), ..view }
}

#[test]
fn attention_stays_within_its_operands_and_outputs() {
    let mut rng = Rng::new(52);
    for [batch, heads, queries, keys, d, dv] in [
        [1, 1, 1, 1, 1, 1],
        [2, 4, 1, 700, 32, 32],
        [1, 2, 3, 5, 7, 9],
        [3, 3, 3, 3, 3, 3],
        [2, 2, 70, 100, 17, 33],
        [1, 1, 65, 97, 64, 64],
        [1, 2, 130, 200, 80, 16],
    ] {
        let q = rng.block::<f32>(&[batch, heads, queries, d]);
        let (k, v) = (
            rng.block::<f32>(&[batch, heads, keys, d]),
            rng.block::<f32>(&[batch, heads, keys, dv]),
        );
        let full = [batch, heads, queries, keys];
        let keep: Vec<bool> = (0..batch * keys).map(|_| rng.below(4) > 0).collect();
        let keep_layout = Layout::packed(&[batch, keys]).broadcast(&full, &[0, 3]);
        let bias = rng.block::<f32>(&full);
        let out_len = batch * queries * heads * dv;
        let mut expected = None;
        for (edge, kind) in
            [(Edge::Before, 3), (Edge::Behind, 3), (Edge::Behind, 0), (Edge::Behind, 2)]
        {
            let of = |block: &Block<f32>| match kind {
                3 => guarded(block, edge),
                kind => guarded(&block.scattered(kind), edge),
            };
            let [q, k, v, bias] = [&q, &k, &v, &bias].map(of);
            let keep = Guarded::of(&keep, edge);
            let offset = Offset::Same(keys as isize - queries as isize);
            let (ahead, behind) = (Some(0), Some(90));
            let band = Diagonal { offset, ahead, behind, prefix: 1, global: 1 };
            let mask = Mask {
                keep: vec![View { data: &keep, layout: keep_layout }],
                bands: vec![Band::Diagonal(band)],
                bias: vec![bias.0.view(bias.1)],
                ..Mask::NONE
            };
            let views = [&q, &k, &v].map(|(data, layout)| data.view(*layout));
            let settings = Settings { softcap: Some(2.0), ..Settings::scaled(0.3) };
            let mut out = Guarded::of(&vec![0f32; out_len], edge);
            let to = Out { out: &mut out, weights: None, sums: Sums::Nothing };
            attention_to(views, &settings, &mask, to);
            assert_eq!(*expected.get_or_insert_with(|| bits(&out)), bits(&out));
            let rows = batch * heads * queries;
            let mut weights = Guarded::of(&vec![0f32; rows * keys], edge);
            let mut log_sums = Guarded::of(&vec![0f32; rows], edge);
            let to =
                Out { out: &mut out, weights: Some(&mut weights), sums: Sums::Log(&mut log_sums) };
            attention_to(views, &settings, &mask, to);
        }
    }
}

#[test]
fn rows_stay_within_their_operands() {
    let mut rng = Rng::new(53);
    for n in (1..40).chain([64, 257, 1000]) {
        let x = rng.block::<f32>(&[3, n]);
        let (weight, bias) = (rng.values::<f32>(n), rng.values::<f32>(n));
        for edge in EDGES {
            for kind in 0..3 {
                let (data, layout) = guarded(&x.scattered(kind), edge);
                let view = data.view(layout);
                assert_eq!(
                    bits(&softmax(Weights, view, 1, None)),
                    bits(&softmax(Weights, x.view(), 1, None))
                );
                softmax(Logarithms, view, 0, None);
                zip(view, view, |a: f32, b: f32| a + b);
                map(view, |x: f32| x * 2.0);
            }
            let (data, layout) = guarded(&x, edge);
            let (weight, bias) = (Guarded::of(&weight, edge), Guarded::of(&bias, edge));
            let (weight, bias) = (Some(&*weight), Some(&*bias));
            for centered in [true, false] {
                let norm = Norm { size: n, centered, epsilon: 1e-5, weight, bias };
                normalized(data.view(layout), norm);
            }
        }
    }
}
