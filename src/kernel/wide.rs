//! Elements as the numbers that kernels compute with, where several steps need them before anything is
//! rounded: as they are, where that takes no conversion, else copied.

use super::elementwise::{map, map_in_place, pack_part, zip, zip_in_place};
use super::layout::{Layout, View};
use super::output::{place, written_in_chunks};
use super::parallel::{PIECE, for_each_chunk};
use super::runs::Runs;
use super::scratch::Spare;
use super::simd::elements::{narrow_to, widen_to};
use super::simd::{Isa, Kernel, Lanes, Vector};
use crate::element::Float;
use std::any::Any;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// A view of wide numbers, or the copy that it is of, in row-major order.
pub(super) struct Wide<'a, R: Clone> {
    data: Cow<'a, [R]>,
    layout: Layout,
}

impl<R: Clone> Wide<'_, R> {
    pub(super) fn view(&self) -> View<'_, R> {
        View { data: &self.data, layout: self.layout }
    }
}

/// Whether elements are what they are computed with.
fn is_wide<E: Float>() -> bool {
    E::as_wide(&[]).is_some()
}

/// Elements that go through wide numbers at a time: both stay in the nearest cache.
const BLOCK: usize = 1 << 11;

/// The elements of a view, wide.
pub(super) fn wide<E: Float>(view: View<'_, E>) -> Wide<'_, E::Wide> {
    match E::as_wide(view.data) {
        Some(data) => Wide { data: Cow::Borrowed(data), layout: view.layout },
        None => Wide { data: Cow::Owned(cast(view)), layout: Layout::packed(&view.layout.dims) },
    }
}

/// The numbers, each rounded.
pub(super) fn narrowed<E: Float>(numbers: Vec<E::Wide>) -> Vec<E> {
    let numbers: Box<dyn Any> = Box::new(numbers);
    match numbers.downcast::<Vec<E>>() {
        Ok(same) => *same,
        Err(numbers) => {
            let numbers = numbers.downcast::<Vec<E::Wide>>().unwrap_or_default();
            let layout = Layout::packed(&[numbers.len()]);
            cast(View { data: &numbers[..], layout })
        }
    }
}

/// The elements of a view in another type, in row-major order, each rounded once.
pub(crate) fn cast<E: Float, F: Float>(view: View<E>) -> Vec<F> {
    let twice_rounded = size_of::<E::Wide>() > size_of::<F::Wide>();
    if twice_rounded || is_wide::<E>() && is_wide::<F>() {
        return map(view, |x| F::from_f64(x.to_f64()));
    }
    by_blocks(view, |_, wide, to| {
        let mut numbers = Spare::take(wide.len());
        for (to, x) in numbers.iter_mut().zip(&*wide) {
            *to = F::Wide::from_f64(x.to_f64());
        }
        F::Wide::vectorized(Isa::best(), Narrow { from: &numbers, to });
    })
}

/// `f` of every element, made of wide numbers and rounded once.
pub(crate) fn map_wide<E: Float>(view: View<E>, f: impl Fn(E::Wide) -> E::Wide + Sync) -> Vec<E> {
    if is_wide::<E>() {
        return map(view, |x| E::narrow(f(x.wide())));
    }
    by_blocks(view, |_, wide, to| {
        wide.iter_mut().for_each(|x| *x = f(*x));
        E::Wide::vectorized(Isa::best(), Narrow { from: wide, to });
    })
}

/// As [`map_wide`], in the place of the elements.
pub(crate) fn map_wide_in_place<E: Float>(
    elements: &mut [E],
    f: impl Fn(E::Wide) -> E::Wide + Sync,
) {
    if is_wide::<E>() {
        return map_in_place(elements, |x| E::narrow(f(x.wide())));
    }
    let work = elements.len();
    for_each_chunk(elements, PIECE, work, |_, chunk| {
        for block in chunk.chunks_mut(BLOCK) {
            through_wide(block, |wide| wide.iter_mut().for_each(|x| *x = f(*x)));
        }
    });
}

/// `f` of every pair of elements, as [`map_wide`]. The views have equal sizes.
pub(crate) fn zip_wide<E: Float>(
    a: View<E>,
    b: View<E>,
    f: impl Fn(E::Wide, E::Wide) -> E::Wide + Sync,
) -> Vec<E> {
    if is_wide::<E>() {
        return zip(a, b, |a, b| E::narrow(f(a.wide(), b.wide())));
    }
    let runs = Runs::new([&b.layout]);
    by_blocks(a, |first, wide, to| {
        let mut others = Spare::take(wide.len());
        load_part(b, &runs, first, &mut others);
        wide.iter_mut().zip(&*others).for_each(|(a, &b)| *a = f(*a, b));
        E::Wide::vectorized(Isa::best(), Narrow { from: wide, to });
    })
}

/// As [`zip_wide`], in the place of the first of each pair; those are in row-major order.
pub(crate) fn zip_wide_in_place<E: Float>(
    elements: &mut [E],
    partners: View<E>,
    f: impl Fn(E::Wide, E::Wide) -> E::Wide + Sync,
) {
    if is_wide::<E>() {
        return zip_in_place(elements, partners, |a, b| E::narrow(f(a.wide(), b.wide())));
    }
    let runs = Runs::new([&partners.layout]);
    let work = elements.len();
    for_each_chunk(elements, PIECE, work, |i, chunk| {
        let mut others = Spare::take(BLOCK);
        for (j, block) in chunk.chunks_mut(BLOCK).enumerate() {
            let others = &mut others[..block.len()];
            load_part(partners, &runs, i * PIECE + j * BLOCK, others);
            through_wide(block, |wide| {
                wide.iter_mut().zip(&*others).for_each(|(a, &b)| *a = f(*a, b));
            });
        }
    });
}

/// What `write` makes of a view's elements in row-major order, block by block: it is given the position of
/// the first, wide copies, and the place for as many elements, all of which it writes.
fn by_blocks<E: Float, F: Float>(
    view: View<E>,
    write: impl Fn(usize, &mut [E::Wide], *mut F) + Sync,
) -> Vec<F> {
    let runs = Runs::new([&view.layout]);
    let count = view.layout.count();
    let chunk = |i, out: &mut [MaybeUninit<F>]| {
        let mut wide = Spare::take(BLOCK);
        for (j, out) in out.chunks_mut(BLOCK).enumerate() {
            let (first, wide) = (i * PIECE + j * BLOCK, &mut wide[..out.len()]);
            load_part(view, &runs, first, wide);
            write(first, wide, out.as_mut_ptr().cast());
        }
    };
    // SAFETY: `write` writes all elements of each block.
    unsafe { written_in_chunks(count, PIECE, count, chunk) }
}

/// Makes the elements from the row-major position `first` on wide, as many as `wide` holds.
fn load_part<E: Float>(view: View<E>, runs: &Runs<1>, first: usize, wide: &mut [E::Wide]) {
    let to = wide.as_mut_ptr();
    match view.as_slice() {
        Some(all) => {
            let from = &all[first..][..wide.len()];
            E::Wide::vectorized(Isa::best(), Widen { from, to });
        }
        None => {
            let mut copy = Spare::take(wide.len());
            // SAFETY: `pack_part` writes elements.
            let from = &*pack_part(view.data, runs, first, unsafe { place(&mut copy) });
            E::Wide::vectorized(Isa::best(), Widen { from, to });
        }
    }
}

/// Lets `f` change elements as wide numbers, and rounds them once.
pub(super) fn through_wide<E: Float>(elements: &mut [E], f: impl FnOnce(&mut [E::Wide])) {
    if let Some(wide) = E::as_wide_mut(elements) {
        return f(wide);
    }
    let isa = Isa::best();
    let mut wide = Spare::take(elements.len());
    E::Wide::vectorized(isa, Widen { from: &*elements, to: wide.as_mut_ptr() });
    f(&mut wide);
    E::Wide::vectorized(isa, Narrow { from: &wide, to: elements.as_mut_ptr() });
}

/// Elements made wide, at a place for as many numbers. Whoever makes one vouches for that.
struct Widen<'a, E: Float> {
    from: &'a [E],
    to: *mut E::Wide,
}

impl<E: Float> Kernel<E::Wide> for Widen<'_, E> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        // SAFETY: the instruction set is the caller's, the place that of whoever made this.
        unsafe { widen_to::<E, V>(self.from, self.to) }
    }
}

/// Numbers rounded, at a place for as many elements. Whoever makes one vouches for that.
struct Narrow<'a, E: Float> {
    from: &'a [E::Wide],
    to: *mut E,
}

impl<E: Float> Kernel<E::Wide> for Narrow<'_, E> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = E::Wide>>(self) {
        // SAFETY: the instruction set is the caller's, the place that of whoever made this.
        unsafe { narrow_to::<E, V>(self.from, self.to) }
    }
}

/// What kernels make of halves is what they make of the same numbers in f32, rounded once: bit for bit,
/// since all between reading and writing is the same, unless tiles multiply.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{bf16, f16};
    use crate::kernel::attention::{Forward, Given, Mask, Out, Settings, Sums};
    use crate::kernel::attention::{attention_backward, attention_to};
    use crate::kernel::cross_entropy::{Smoothing, cross_entropy_backward, losses};
    use crate::kernel::gated::{gate_backward, gate_in_place};
    use crate::kernel::gemm::Epilogue;
    use crate::kernel::gemm::{gemm, gemm_packed, pack_b};
    use crate::kernel::linear_attention::{FeatureMap, linear_attention};
    use crate::kernel::math::Silu;
    use crate::kernel::norm::{Norm, normalized};
    use crate::kernel::norm_backward::norm_backward;
    use crate::kernel::pointwise;
    use crate::kernel::reduce::{mean, sum, variance};
    use crate::kernel::rotary::{Pairs, rotate};
    use crate::kernel::softmax::{Softmax, softmax, softmax_backward};
    use crate::kernel::testing::{Block, Rng, bits, in_pools};
    use crate::kernel::tiles;

    /// What a kernel makes of blocks, as lists.
    trait Job {
        fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>>;
    }

    fn check_in<E: Float<Wide = f32>>(job: &(impl Job + Sync), shapes: &[&[usize]]) {
        let mut rng = Rng::new(90);
        let blocks: Vec<Block<E>> = shapes.iter().map(|dims| rng.block(dims)).collect();
        let wide: Vec<Block<f32>> = blocks
            .iter()
            .map(|block| Block {
                data: block.data.iter().map(|x| x.wide()).collect(),
                layout: block.layout,
            })
            .collect();
        let all = |lists: Vec<Vec<E>>| lists.iter().map(|x| bits(x)).collect::<Vec<_>>();
        let found = in_pools(|| all(job.run(&blocks)));
        let expected = job.run(&wide).into_iter();
        let expected = expected.map(|list| list.into_iter().map(E::narrow).collect()).collect();
        let expected = all(expected);
        if tiles::multiply::<E>(Isa::best()) {
            // Tiles add in another order and round the weights of attention.
            for (found, expected) in found.iter().zip(&expected) {
                let [found, expected] =
                    [found, expected].map(|list| list.iter().map(|&x| f64::from_bits(x)));
                let largest = expected.clone().map(f64::abs).fold(0.0, f64::max);
                for (a, b) in found.zip(expected) {
                    assert!((a - b).abs() <= largest / 64.0, "{}: {a} {b}", E::NAME);
                }
            }
        } else {
            let difference = first_difference(&found, &expected);
            assert!(found == expected, "{}: {difference:?}", E::NAME);
        }
        for kind in 0..3 {
            let others: Vec<_> = blocks.iter().map(|block| block.scattered(kind)).collect();
            let other = all(job.run(&others));
            let difference = first_difference(&other, &found);
            assert!(other == found, "{} strides {kind}: {difference:?}", E::NAME);
        }
    }

    /// The list, the place in it and both numbers.
    fn first_difference(a: &[Vec<u64>], b: &[Vec<u64>]) -> Option<(usize, usize, [f64; 2])> {
        a.iter().zip(b).enumerate().find_map(|(list, (a, b))| {
            let at = a.iter().zip(b).position(|(a, b)| a != b)?;
            Some((list, at, [a[at], b[at]].map(f64::from_bits)))
        })
    }

    fn check(job: impl Job + Sync, shapes: &[&[usize]]) {
        check_in::<f16>(&job, shapes);
        check_in::<bf16>(&job, shapes);
    }

    fn check_casts<E: Float, F: Float>() {
        let mut rng = Rng::new(91);
        let mut block = rng.block::<E>(&[3, 5, 1999]);
        let strange = [f64::NAN, f64::INFINITY, -0.0, 1e-7, 65_520.0, 1e300, 1.0 + 1e-4];
        for (x, strange) in block.data.iter_mut().step_by(100).zip(strange.iter().cycle()) {
            *x = E::from_f64(*strange);
        }
        let expected: Vec<F> = block.data.iter().map(|x| F::from_f64(x.to_f64())).collect();
        for kind in 0..3 {
            let found = in_pools(|| bits(&cast::<E, F>(block.scattered(kind).view())));
            assert!(found == bits(&expected), "{} to {}, strides {kind}", E::NAME, F::NAME);
        }
    }

    #[test]
    fn a_cast_is_rounded_once() {
        check_casts::<f32, f16>();
        check_casts::<f32, bf16>();
        check_casts::<f64, f16>();
        check_casts::<f64, bf16>();
        check_casts::<f64, f32>();
        check_casts::<f16, f32>();
        check_casts::<bf16, f64>();
        check_casts::<f16, bf16>();
        check_casts::<bf16, f16>();
        check_casts::<f32, f64>();
    }

    struct Lines;
    impl Job for Lines {
        fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>> {
            let [x, g, weight, bias] = blocks else { unreachable!() };
            let (weight, bias) = (weight.pack(), bias.pack());
            let at = x.layout.rank() - 1;
            let size = x.layout.dims[at];
            let (weight, bias) = (Some(&weight[..]), Some(&bias[..]));
            let mut all = Vec::new();
            for centered in [true, false] {
                let norm = Norm { size, centered, epsilon: 1e-5, weight, bias };
                all.push(normalized(x.view(), norm));
                all.extend(norm_backward(x.view(), g.view(), norm));
            }
            for kind in [Softmax::Weights, Softmax::Logarithms] {
                all.push(softmax(kind, x.view(), at, None));
                all.push(softmax_backward(kind, x.view(), g.view(), at));
            }
            let keep: Vec<bool> = (0..x.layout.count()).map(|i| i % 3 != 1).collect();
            let keep = View { data: &keep[..], layout: Layout::packed(&x.layout.dims) };
            all.push(softmax(Softmax::Weights, x.view(), at, Some(keep)));
            all.extend([sum(x.view(), at), mean(x.view(), at), variance(x.view(), at)]);
            all.push(map_wide(x.view(), |x| x / E::Wide::from_f64(3.0)));
            all.push(zip_wide(x.view(), g.view(), |x, g| x * g));
            let [mut difference, mut square] = [x.pack(), x.pack()];
            zip_wide_in_place(&mut difference, g.view(), |x, g| x - g);
            map_wide_in_place(&mut square, |x| x * x);
            all.extend([difference, square]);
            all.push(pointwise::map(x.view(), Silu));
            all.push(pointwise::backward(x.view(), g.view(), Silu));
            let rows: usize = x.layout.dims[..at].iter().product();
            let targets: Vec<_> =
                (0..rows).map(|row| (row % 4 > 0).then_some(row % size)).collect();
            let smoothing = Smoothing { share: 0.1, weights: weight };
            let [loss, logarithms] = losses(x.view(), &targets, smoothing);
            all.push(narrowed(loss));
            let g = E::Wide::from_f64(0.25);
            all.push(cross_entropy_backward(x.view(), &targets, &logarithms, g, smoothing));
            let (act, slope): (fn(&mut [E::Wide]), fn(&[E::Wide], &mut [E::Wide])) =
                (|x| pointwise::apply(x, Silu), |x, g| pointwise::apply_backward(x, g, Silu));
            let mut rows = x.pack();
            let half = size / 2;
            rows.truncate(rows.len() / size * half * 2);
            all.push(gate_backward(&rows, &x.pack()[..rows.len() / 2], half, act, slope));
            gate_in_place(&mut rows, half, act);
            for row in rows.chunks_exact_mut((2 * half).max(1)) {
                row[half..].fill(E::default());
            }
            all.push(rows);
            all
        }
    }

    #[test]
    fn lines_of_halves_are_rounded_once() {
        for size in [1, 2, 7, 16, 33, 70, 1000] {
            check(Lines, &[&[5, size], &[5, size], &[size], &[size]]);
        }
    }

    struct Products;
    impl Job for Products {
        fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>> {
            let [a, b, bias] = blocks else { unreachable!() };
            let bias = bias.pack();
            let packed = pack_b(b.view());
            vec![
                gemm(a.view(), b.view(), Some(&bias)),
                gemm_packed(a.view(), &packed, Epilogue::bias(Some(&bias))),
            ]
        }
    }

    #[test]
    fn products_of_halves_are_rounded_once() {
        for [m, k, n] in [[1, 1, 1], [3, 5, 7], [30, 70, 33], [13, 1030, 64], [64, 64, 64]] {
            check(Products, &[&[m, k], &[k, n], &[n]]);
        }
    }

    struct Attentions;
    impl Job for Attentions {
        fn run<E: Float>(&self, blocks: &[Block<E>]) -> Vec<Vec<E>> {
            let [q, k, v, up] = blocks else { unreachable!() };
            let [batch, heads, queries, d] = [0, 1, 2, 3].map(|i| q.layout.dims[i]);
            let dv = v.layout.dims[3];
            let rows = batch * heads * queries;
            let views = [q.view(), k.view(), v.view()];
            let settings = Settings::scaled(0.4);
            let mut all = Vec::new();
            let mut out = vec![E::default(); rows * dv];
            let mut weights = vec![E::default(); rows * k.layout.dims[2]];
            attention_to(
                views,
                &settings,
                &Mask::NONE,
                Out { out: &mut out, weights: Some(&mut weights), sums: Sums::Nothing },
            );
            all.push(weights);
            for sums in [true, false] {
                // With sums the way of many queries, without that of few where they are few.
                let mut logs = vec![E::default(); rows];
                let kept = if sums { Sums::Log(&mut logs) } else { Sums::Nothing };
                let to = Out { out: &mut out, weights: None, sums: kept };
                attention_to(views, &settings, &Mask::NONE, to);
                all.extend([out.clone(), logs]);
            }
            let map = FeatureMap::EluPlusOne;
            linear_attention(views, map, &Mask::NONE, &mut out);
            all.push(out);
            // The gradients, of an output that both kinds hold.
            let out = vec![E::from_f64(0.5); rows * dv];
            let sums = [2.5, 3.0].map(|sum| vec![E::Wide::from_f64(sum); rows]);
            let forward = Forward {
                views,
                settings: &settings,
                mask: &Mask::NONE,
                sums: Some(sums.each_ref().map(|part| &part[..])),
                together: false,
            };
            let out = View { data: &out[..], layout: Layout::packed(&[batch, heads, queries, dv]) };
            let gradients = attention_backward(&forward, Given::Out(up.view(), out), true);
            all.extend([gradients.q, gradients.k, gradients.v, gradients.scores]);
            let (turns, pairs) = ([0.625, 0.75].map(E::from_f64), d / 2);
            let turns = turns.map(|turn| vec![turn; queries * pairs]);
            let full = [batch, heads, queries, pairs];
            let at = Layout::packed(&[queries, pairs]).broadcast(&full, &[2, 3]);
            for kind in [Pairs::Adjacent, Pairs::SplitHalf] {
                all.push(rotate(q.view(), turns.each_ref().map(|x| &x[..]), &at, kind));
            }
            all
        }
    }

    #[test]
    fn attention_of_halves_is_rounded_once() {
        for [b, h, g, q, k, d, dv] in [
            [1, 1, 1, 1, 1, 1, 1],
            [2, 3, 3, 5, 7, 8, 3],
            [1, 2, 2, 1, 600, 16, 32],
            [2, 1, 1, 70, 100, 33, 40],
            [1, 2, 2, 64, 64, 64, 64],
            [2, 6, 2, 5, 7, 8, 3],
        ] {
            check(Attentions, &[&[b, h, q, d], &[b, g, k, d], &[b, g, k, dv], &[b, h, q, dv]]);
        }
    }
}
