//! Random sizes and masks, the head dims in use, and numbers at the ends of the range, against the
//! [`twin`](super::twin).

use super::twin::{Case, case, causal};
use super::*;
use crate::element::bf16;
use crate::kernel::dropout::Dropout;
use crate::kernel::layout::Layout;
use crate::kernel::testing::{Block, Rng, bits, in_pools};
use num_traits::Float as _;

/// What a random mask and random settings are made of. Views are over some of the axes [B, H, Q, K], the
/// keys without the extra ones.
pub(super) struct Parts<E> {
    extra: usize,
    keep: Vec<Block<bool>>,
    bias: Vec<Block<E>>,
    bands: Vec<Diagonal<'static>>,
    /// Of the bands and of what depends on positions, where it is not the same for all samples.
    offsets: Option<Vec<isize>>,
    ranges: Vec<[usize; 2]>,
    blocks: Option<ListedBlocks>,
    slopes: Option<Block<E>>,
    distances: Option<(Block<E>, isize)>,
    sinks: Vec<Block<E>>,
    softcap: Option<f64>,
    dropout: Option<Dropout>,
    relative: Option<(usize, Block<E>, Block<E>)>,
}

struct ListedBlocks {
    size: [usize; 2],
    rows: usize,
    by_head: bool,
    starts: Vec<usize>,
    columns: Vec<usize>,
}

impl ListedBlocks {
    fn random(rng: &mut Rng, [_, heads, queries, keys]: [usize; 4]) -> Self {
        let size = [1 + rng.below(70), 1 + rng.below(70)];
        let (rows, by_head) = (queries.div_ceil(size[0]), rng.below(2) == 0);
        let (mut starts, mut columns) = (vec![0], vec![]);
        let density = 1 + rng.below(3);
        for _ in 0..if by_head { rows * heads } else { rows } {
            columns.extend((0..keys.div_ceil(size[1])).filter(|_| rng.below(density + 1) == 0));
            starts.push(columns.len());
        }
        ListedBlocks { size, rows, by_head, starts, columns }
    }
}

fn fill<E: Float>(block: &mut ScoreBlock<'_, E>) {
    let (batch, head) = (block.batch, block.head);
    block.fill(|i, j| match (i * 7 + j * 3 + batch + head) % 5 {
        0 => E::from_f64(f64::NEG_INFINITY),
        n => E::from_f64(n as f64 * 0.5),
    });
}

impl<E: Float> Parts<E> {
    fn none() -> Self {
        Parts {
            extra: 0,
            keep: vec![],
            bias: vec![],
            bands: vec![],
            offsets: None,
            ranges: vec![],
            blocks: None,
            slopes: None,
            distances: None,
            sinks: vec![],
            softcap: None,
            dropout: None,
            relative: None,
        }
    }

    /// Flags, biases and bands: what was always there.
    fn random(rng: &mut Rng, full: [usize; 4]) -> Self {
        let layout = |rng: &mut Rng| {
            let at: Vec<usize> = (0..4).filter(|_| rng.below(2) == 0).collect();
            let dims: Vec<usize> = at.iter().map(|&axis| full[axis]).collect();
            (dims.iter().product::<usize>(), Layout::packed(&dims).broadcast(&full, &at))
        };
        let mut parts = Parts::none();
        for _ in 0..rng.below(3) {
            let (count, layout) = layout(rng);
            let data = (0..count).map(|_| rng.below(5) > 0).collect();
            parts.keep.push(Block { data, layout });
        }
        for _ in 0..rng.below(3) {
            let (count, layout) = layout(rng);
            let mut data = rng.values::<E>(count);
            let hidden = E::narrow(E::Wide::neg_infinity());
            data.iter_mut().for_each(|x| *x = if x.to_f64() < -1.6 { hidden } else { *x });
            parts.bias.push(Block { data, layout });
        }
        for _ in 0..rng.below(3) {
            parts.bands.push(diagonal(rng, full));
        }
        parts
    }

    /// Any of what there is, for queries of these sizes and values of the width `dv`.
    pub(super) fn all(rng: &mut Rng, [b, h, q, keys]: [usize; 4], dv: usize) -> Self {
        let extra = rng.below(3).min(keys) * rng.below(2);
        let full @ [.., k] = [b, h, q, keys - extra];
        let mut parts = Parts { extra, ..Parts::random(rng, full) };
        let now = |rng: &mut Rng| rng.below(4) == 0;
        if now(rng) {
            let offset = |rng: &mut Rng| rng.below(k + q + 2) as isize - q as isize;
            parts.offsets = Some((0..b).map(|_| offset(rng)).collect());
        }
        if now(rng) {
            parts.ranges = (0..q).map(|_| [rng.below(k + 2), rng.below(k + 2)]).collect();
        }
        if now(rng) {
            parts.blocks = Some(ListedBlocks::random(rng, full));
        }
        if now(rng) {
            parts.slopes = Some(rng.block(&[h]));
            let scaled = |x: &mut E| *x = E::from_f64(x.to_f64() * 0.05);
            parts.slopes.iter_mut().flat_map(|x| &mut x.data).for_each(scaled);
        }
        if now(rng) {
            let count = 1 + rng.below(40);
            let first = rng.below(80) as isize - 60;
            parts.distances = Some((rng.block(&[h, count]), first));
        }
        for _ in 0..rng.below(3) * rng.below(2) {
            parts.sinks.push(rng.block(&[h]));
        }
        if now(rng) {
            parts.softcap = Some(0.5 + rng.unit());
        }
        if now(rng) {
            parts.dropout = Some(Dropout::new(0.7 * rng.unit(), rng.next()));
        }
        if now(rng) {
            let max = rng.below(20);
            let entries = 2 * max + 1;
            parts.relative = Some((max, rng.block(&[b, h, q, entries]), rng.block(&[entries, dv])));
        }
        parts
    }

    fn offset(&self) -> Offset<'_> {
        self.offsets.as_deref().map_or(Offset::Same(3), Offset::BySample)
    }

    pub(super) fn mask(&self) -> Mask<'_, E> {
        let mut mask = Mask {
            extra: self.extra,
            keep: self.keep.iter().map(Block::view).collect(),
            bias: self.bias.iter().map(Block::view).collect(),
            sinks: self.sinks.iter().map(Block::view).collect(),
            ..Mask::NONE
        };
        for &band in &self.bands {
            let offset = self.offsets.as_deref().map_or(band.offset, Offset::BySample);
            mask.bands.push(Band::Diagonal(Diagonal { offset, ..band }));
        }
        if !self.ranges.is_empty() {
            mask.bands.push(Band::Ranges(&self.ranges));
        }
        if let Some(ListedBlocks { size, rows, by_head, starts, columns }) = &self.blocks {
            let (size, rows, by_head) = (*size, *rows, *by_head);
            mask.blocks.push(Blocks { size, starts, columns, rows, by_head });
        }
        let offset = self.offset();
        if let Some(slopes) = &self.slopes {
            mask.slopes.push(Slopes { each: slopes.view(), offset });
            mask.fills.push(Fill(&fill));
        }
        if let Some((table, first)) = &self.distances {
            mask.distances.push(Distances { table: table.view(), first: *first, offset });
        }
        mask
    }

    pub(super) fn settings(&self, scale: f64) -> Settings<'_, E> {
        let relative = self.relative.as_ref().map(|(max, products, values)| Relative {
            products: Some(products.view()),
            values: Some(values.view()),
            max: *max,
            offset: self.offset(),
        });
        let &Parts { softcap, dropout, .. } = self;
        Settings { scale, softcap, dropout, relative }
    }
}

fn diagonal(rng: &mut Rng, [_, _, queries, keys]: [usize; 4]) -> Diagonal<'static> {
    let offset = rng.below(keys + queries + 2) as isize - queries as isize;
    let any = |rng: &mut Rng| (rng.below(3) > 0).then(|| rng.below(keys / 2 + 2));
    Diagonal {
        offset: Offset::Same(offset),
        behind: any(rng),
        ahead: any(rng).filter(|_| rng.below(2) == 0).or(Some(0)).filter(|_| rng.below(4) > 0),
        prefix: rng.below(keys + 1) * rng.below(2),
        global: rng.below(keys + 1) * usize::from(rng.below(4) == 0),
    }
}

pub(super) fn sizes(rng: &mut Rng) -> [usize; 7] {
    let groups = 1 + rng.below(2);
    let heads = groups * (1 + rng.below(3));
    let [queries, d, dv] = [0; 3].map(|_| 1 + rng.below(140));
    [1 + rng.below(2), heads, groups, queries, rng.below(140), d, dv]
}

#[test]
fn random_sizes_and_masks_match_the_definition() {
    let mut rng = Rng::new(40);
    for _ in 0..if cfg!(debug_assertions) { 12 } else { 120 } {
        let sizes = sizes(&mut rng);
        let case = case::<f32>(&mut rng, sizes);
        let parts = Parts::<f32>::random(&mut rng, case.dims());
        case.check(&parts.mask());
    }
}

#[test]
fn random_settings_match_the_definition() {
    let mut rng = Rng::new(47);
    for _ in 0..if cfg!(debug_assertions) { 24 } else { 400 } {
        let mut sizes = sizes(&mut rng);
        if rng.below(3) == 0 {
            sizes[3] = 1 + rng.below(8);
            sizes[4] *= 1 + 10 * rng.below(2);
        }
        let case = case::<f32>(&mut rng, sizes);
        let parts = Parts::<f32>::all(&mut rng, case.dims(), sizes[6]);
        case.check_with(&parts.settings(case.scale), &parts.mask());
    }
}

#[test]
fn random_settings_match_the_definition_in_halves() {
    let mut rng = Rng::new(48);
    for _ in 0..if cfg!(debug_assertions) { 6 } else { 100 } {
        let sizes = sizes(&mut rng);
        let case = case::<bf16>(&mut rng, sizes);
        let parts = Parts::<bf16>::all(&mut rng, case.dims(), sizes[6]);
        case.check_with(&parts.settings(case.scale), &parts.mask());
    }
}

#[test]
fn random_strides_threads_and_hidden_numbers_change_no_bit() {
    let mut rng = Rng::new(41);
    for round in 0..if cfg!(debug_assertions) { 4 } else { 24 } {
        let sizes = sizes(&mut rng);
        let case = case::<f32>(&mut rng, sizes);
        let full @ [b, h, _, keys] = case.dims();
        let mut parts = Parts::<f32>::random(&mut rng, full);
        let hidden: Vec<bool> = (0..keys).map(|_| rng.below(4) == 0).collect();
        let layout = Layout::packed(&[keys]).broadcast(&full, &[3]);
        parts.keep.push(Block { data: hidden.iter().map(|hidden| !hidden).collect(), layout });
        let result = in_pools(|| bits(&case.run(&parts.mask())));
        let scattered = |case: &Case<f32>, kind| Case {
            x: [0, 1, 2].map(|i| case.x[i].scattered(kind)),
            scale: case.scale,
        };
        for kind in 0..3 {
            assert_eq!(bits(&scattered(&case, kind).run(&parts.mask())), result);
        }
        let mut dirty = Case { x: case.x.clone(), scale: case.scale };
        for block in &mut dirty.x[1..] {
            let columns = block.layout.dims[3];
            for (i, x) in block.data.iter_mut().enumerate() {
                if hidden[i / columns % keys] {
                    *x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX][(i + round) % 4];
                }
            }
        }
        assert_eq!(bits(&dirty.run(&parts.mask())), result, "{b} {h}");
        assert_eq!(bits(&scattered(&dirty, round % 3).run(&parts.mask())), result);
    }
}

#[test]
fn head_dims_in_use_and_their_neighbours_match_the_definition() {
    let mut rng = Rng::new(42);
    let dims: &[usize] =
        if cfg!(debug_assertions) { &[32, 80] } else { &[32, 64, 80, 96, 128, 256] };
    for &dim in dims {
        for (d, dv) in [(dim - 1, dim), (dim, dim), (dim, dim + 1), (dim + 1, dim - 1)] {
            let sizes = [1, 2, 1, 51, 101, d, dv];
            case::<f32>(&mut rng, sizes).check(&Mask { bands: vec![causal(50)], ..Mask::NONE });
            case::<f64>(&mut rng, sizes).check(&Mask::NONE);
        }
    }
}

#[test]
fn long_pieces_match_the_definition_and_change_no_bit() {
    let mut rng = Rng::new(43);
    let case = case::<f32>(&mut rng, [2, 8, 4, 230, 210, 20, 18]);
    let mask = Mask { bands: vec![causal(-10)], ..Mask::NONE };
    case.check(&mask);
    let result = in_pools(|| bits(&case.run(&mask)));
    for kind in 0..3 {
        let other = Case { x: [0, 1, 2].map(|i| case.x[i].scattered(kind)), scale: case.scale };
        assert_eq!(bits(&other.run(&mask)), result);
    }
}

#[test]
fn scores_at_the_ends_of_the_range_match_the_definition() {
    let mut rng = Rng::new(44);
    for _ in 0..20 {
        let mut case = case::<f32>(&mut rng, [1, 2, 1, 60, 130, 1, 17]);
        for block in &mut case.x[..2] {
            let some = [1e15, -1e15, 1.0, -1.0, 0.0, 1e-30];
            block.data.iter_mut().for_each(|x| *x = some[rng.below(6)]);
        }
        case.check(&Mask::NONE);
        case.check(&Mask { bands: vec![causal(0)], ..Mask::NONE });
    }
}

#[test]
fn the_least_and_the_greatest_bias_are_finite() {
    let mut rng = Rng::new(45);
    let case = case::<f32>(&mut rng, [1, 2, 2, 50, 110, 16, 16]);
    let full @ [.., keys] = case.dims();
    let layout = Layout::packed(&[keys]).broadcast(&full, &[3]);
    for values in [[f32::MIN, f32::MIN], [f32::MIN, 1.0], [f32::MAX, f32::MAX], [f32::MAX, -1.0]] {
        let data: Vec<f32> = (0..keys).map(|key| values[key % 2]).collect();
        case.check(&Mask { bias: vec![View { data: &data, layout }], ..Mask::NONE });
    }
}

/// The definition as one would write it in f32.
fn plain(case: &Case<f32>) -> Vec<f32> {
    let [q, k, v] = [0, 1, 2].map(|i| (&case.x[i].data, case.x[i].layout.dims[3]));
    let mut out = Vec::new();
    for q in q.0.chunks(q.1) {
        let product = |k: &[f32]| q.iter().zip(k).map(|(q, k)| q * k).sum::<f32>();
        let scores: Vec<f32> = k.0.chunks(k.1).map(|k| product(k) * case.scale as f32).collect();
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
        let total: f32 = weights.iter().sum();
        out.extend((0..v.1).map(|c| {
            let values = v.0.iter().skip(c).step_by(v.1);
            weights.iter().zip(values).map(|(weight, v)| weight / total * v).sum::<f32>()
        }));
    }
    out
}

#[test]
fn the_error_is_at_most_twice_that_of_a_plain_f32_implementation() {
    let mut rng = Rng::new(46);
    let cases = [(90, 128, 8.0), (300, 64, 0.125), (300, 64, 2.0), (1000, 32, 0.5)];
    for (keys, d, scale) in cases.into_iter().take(if cfg!(debug_assertions) { 1 } else { 4 }) {
        let case = Case { scale, ..case::<f32>(&mut rng, [1, 1, 1, 500, keys, d, 33]) };
        let exact = case.exact(&Mask::NONE);
        let error = |out: &[f32]| {
            let each = out.iter().zip(&exact).map(|(x, exact)| (f64::from(*x) - exact).abs());
            each.fold(0.0, f64::max)
        };
        let (actual, plain) = (error(&case.run(&Mask::NONE)), error(&plain(&case)));
        assert!(actual <= 2.0 * plain + 1e-7, "{keys} {d} {scale}: {actual:e} {plain:e}");
    }
}
