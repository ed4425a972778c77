//! The definition of attention in f64, and what tests compare it with.

use super::*;
use crate::kernel::dropout::Row;
use crate::kernel::layout::Layout;
use crate::kernel::testing::{Block, Rng, rounding};
use crate::kernel::tiles;

/// The twin: the definition in f64, one query at a time. Gives the output, the weights, the logarithms of
/// the sums of e to the scores, and the scores.
pub(super) fn slow<E: Float>(
    [q, k, v]: [View<E>; 3],
    settings: &Settings<E>,
    mask: &Mask<E>,
) -> [Vec<f64>; 4] {
    let [batch, heads, queries, d] = [0, 1, 2, 3].map(|axis| q.layout.dims[axis]);
    let [groups, keys] = [1, 2].map(|axis| k.layout.dims[axis]);
    let dv = v.layout.dims[3];
    let mut out = vec![0.0; batch * queries * heads * dv];
    let mut weights = vec![0.0; batch * heads * queries * keys];
    let mut log_sums = vec![0.0; batch * heads * queries];
    let mut all_scores = Vec::new();
    for row in 0..batch * heads * queries {
        let (b, h, i) = (row / queries / heads, row / queries % heads, row % queries);
        let g = h / (heads / groups);
        let score = |j: usize| {
            let product = |c| at(&q, &[b, h, i, c]).to_f64() * at(&k, &[b, g, j, c]).to_f64();
            let mut score = (0..d).map(product).sum::<f64>() * settings.scale;
            if let Some(Relative { products: Some(products), .. }) = &settings.relative {
                let t = entry(settings, b, i, j);
                score += at(products, &[b, h, i, t]).to_f64() * settings.scale;
            }
            let score = settings.softcap.map_or(score, |cap| cap * (score / cap).tanh());
            let Some(j) = j.checked_sub(mask.extra) else { return score };
            if sees(mask, [b, h, i, j]) {
                score + added(mask, [b, h, i, j])
            } else {
                f64::NEG_INFINITY
            }
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        all_scores.extend(&scores);
        let sinks = mask.sinks.iter().map(|sinks| at(sinks, &[h]).to_f64());
        let all = || scores.iter().copied().chain(sinks.clone());
        let max = all().fold(f64::NEG_INFINITY, f64::max);
        let exp = |score: f64| if score == f64::NEG_INFINITY { 0.0 } else { (score - max).exp() };
        let total: f64 = all().map(exp).sum();
        log_sums[row] = max + total.ln();
        let dropout = settings.dropout.map(|dropout| {
            (dropout.row(((mask.first + b) * heads + h) * queries + i), dropout.factor())
        });
        for (j, &score) in scores.iter().enumerate() {
            let weight = exp(score) / if total == 0.0 { 1.0 } else { total };
            let kept = |(row, factor): (Row, f64)| if row.keeps(j) { factor } else { 0.0 };
            let weight = weight * dropout.map_or(1.0, kept);
            weights[row * keys + j] = weight;
            for c in (0..dv).filter(|_| weight != 0.0) {
                let relative = settings.relative_values();
                let relative = relative
                    .map_or(0.0, |values| at(values, &[entry(settings, b, i, j), c]).to_f64());
                out[((b * queries + i) * heads + h) * dv + c] +=
                    weight * (at(&v, &[b, g, j, c]).to_f64() + relative);
            }
        }
    }
    [out, weights, log_sums, all_scores]
}

pub(super) fn at<T: Copy>(view: &View<T>, index: &[usize]) -> T {
    let strides = view.layout.strides;
    let steps = index.iter().zip(strides.iter()).map(|(i, stride)| i * stride);
    view.data[view.layout.offset + steps.sum::<usize>()]
}

pub(super) fn position(offset: Offset, b: usize, i: usize) -> isize {
    i as isize
        + match offset {
            Offset::Same(offset) => offset,
            Offset::BySample(offsets) => offsets[b],
        }
}

pub(super) fn entry<E>(settings: &Settings<E>, b: usize, i: usize, j: usize) -> usize {
    let Relative { max, offset, .. } = settings.relative.as_ref().unwrap();
    let max = *max as isize;
    ((j as isize - position(*offset, b, i)).clamp(-max, max) + max) as usize
}

/// Whether a key, counted from behind the extra ones, is visible.
fn sees<E: Float>(mask: &Mask<E>, index @ [b, h, i, j]: [usize; 4]) -> bool {
    let in_band = |band: &Band| match *band {
        Band::Ranges(ranges) => (ranges[i][0]..ranges[i][1]).contains(&j),
        Band::Diagonal(Diagonal { offset, behind, ahead, prefix, global }) => {
            let position = position(offset, b, i);
            let beside = j as isize - position;
            (0..global as isize).contains(&position)
                || j < prefix
                || behind.is_none_or(|behind| beside >= -(behind as isize))
                    && ahead.is_none_or(|ahead| beside <= ahead as isize)
        }
    };
    let in_blocks = |blocks: &Blocks| {
        let row = i / blocks.size[0] + if blocks.by_head { h * blocks.rows } else { 0 };
        let columns = &blocks.columns[blocks.starts[row]..blocks.starts[row + 1]];
        columns.contains(&(j / blocks.size[1]))
    };
    mask.bands.iter().all(in_band)
        && mask.blocks.iter().all(in_blocks)
        && mask.keep.iter().all(|keep| at(keep, &index))
}

fn added<E: Float>(mask: &Mask<E>, index @ [b, h, i, j]: [usize; 4]) -> f64 {
    let bias = mask.bias.iter().map(|view| at(view, &index).to_f64()).sum::<f64>();
    let beside = |offset: Offset<'_>| j as isize - position(offset, b, i);
    let slope =
        |x: &Slopes<E>| -at(&x.each, &[h]).to_f64() * (beside(x.offset).unsigned_abs() as f64);
    let by_distance = |x: &Distances<E>| match x.table.layout.dims[1] {
        0 => 0.0,
        n => at(&x.table, &[h, (beside(x.offset) - x.first).clamp(0, n as isize - 1) as usize])
            .to_f64(),
    };
    let filled = |fill: &Fill<E>| {
        let mut scores = [E::default()];
        let (queries, keys) = (i..i + 1, j..j + 1);
        let batch = mask.first + b;
        fill.0(&mut ScoreBlock { batch, head: h, queries, keys, scores: &mut scores });
        scores[0].to_f64()
    };
    bias + mask.slopes.iter().map(slope).sum::<f64>()
        + mask.distances.iter().map(by_distance).sum::<f64>()
        + mask.fills.iter().map(filled).sum::<f64>()
}

pub(super) struct Case<E> {
    pub(super) x: [Block<E>; 3],
    pub(super) scale: f64,
}

/// `sizes` are B, H, G, Q, K, D, Dv.
pub(super) fn case<E: Float>(rng: &mut Rng, [b, h, g, q, k, d, dv]: [usize; 7]) -> Case<E> {
    let x = [rng.block(&[b, h, q, d]), rng.block(&[b, g, k, d]), rng.block(&[b, g, k, dv])];
    Case { x, scale: 1.0 / (d.max(1) as f64).sqrt() }
}

impl<E: Float> Case<E> {
    pub(super) fn views(&self) -> [View<'_, E>; 3] {
        [0, 1, 2].map(|i| self.x[i].view())
    }

    pub(super) fn dims(&self) -> [usize; 4] {
        let [q, k, _] = self.views().map(|view| view.layout.dims);
        [q[0], q[1], q[2], k[2]]
    }

    /// The output and the weights.
    pub(super) fn run_on(&self, isa: Isa, mask: &Mask<E>) -> (Vec<E>, Vec<E>) {
        let [out, weights, _] = self.run_with(isa, &Settings::scaled(self.scale), mask);
        (out, weights)
    }

    /// The output, the weights and the logarithms of the sums.
    pub(super) fn run_with(&self, isa: Isa, settings: &Settings<E>, mask: &Mask<E>) -> [Vec<E>; 3] {
        let [b, h, q, k] = self.dims();
        let nan = |count| vec![E::from_f64(f64::NAN); count];
        let mut outs = [0; 3].map(|_| nan(b * h * q * self.x[2].layout.dims[3]));
        let [out, second, third] = outs.each_mut();
        let (mut weights, mut log_sums) = (nan(b * h * q * k), nan(b * h * q));
        attention_on(
            isa,
            self.views(),
            settings,
            mask,
            Out { out, weights: None, sums: Sums::Nothing },
        );
        let with = Out { out: second, weights: Some(&mut weights), sums: Sums::Nothing };
        attention_on(isa, self.views(), settings, mask, with);
        let with = Out { out: third, weights: None, sums: Sums::Log(&mut log_sums) };
        attention_on(isa, self.views(), settings, mask, with);
        let by_rounded_weights = self.by_rounded_weights(isa);
        for other in &outs[1..] {
            for (a, b) in outs[0].iter().zip(other) {
                let (a, b) = (a.to_f64(), b.to_f64());
                let allowed = 1e-5 + 2.0 * rounding::<E>(a) + by_rounded_weights;
                assert!((a - b).abs() <= allowed || a.is_nan() && b.is_nan(), "{a} {b}");
            }
        }
        let [out, ..] = outs;
        [out, weights, log_sums]
    }

    /// How far an output may be off because tiles round the weights, which are parts of 1.
    pub(super) fn by_rounded_weights(&self, isa: Isa) -> f64 {
        if !tiles::multiply::<E>(isa) {
            return 0.0;
        }
        let values = self.x[2].data.iter().map(|v| v.to_f64().abs());
        rounding::<E>(values.filter(|v| v.is_finite()).fold(0.0, f64::max))
    }

    pub(super) fn run(&self, mask: &Mask<E>) -> Vec<E> {
        self.run_on(Isa::best(), mask).0
    }

    pub(super) fn exact(&self, mask: &Mask<E>) -> Vec<f64> {
        let [out, ..] = slow(self.views(), &Settings::scaled(self.scale), mask);
        out
    }

    pub(super) fn check(&self, mask: &Mask<E>) {
        self.check_with(&Settings::scaled(self.scale), mask);
    }

    pub(super) fn check_with(&self, settings: &Settings<E>, mask: &Mask<E>) {
        let exact = slow(self.views(), settings, mask);
        let allowed = if E::NAME == "f64" { 1e-14 } else { 3e-6 };
        // Dropout and relative positions scale sums up, and so their errors.
        let scaled = settings.dropout.is_some() || settings.relative.is_some();
        let allowed = if scaled { 5.0 * allowed } else { allowed };
        let sizes: usize = self.x.iter().flat_map(|x| x.layout.dims.iter()).sum();
        for isa in Isa::tried(sizes + mask.bias.len()) {
            let [out, weights, log_sums] = self.run_with(isa, settings, mask);
            let [q, k, _] = self.views();
            let actual = [out, weights, log_sums, scores([q, k], settings, mask, Stage::Masked)];
            let lists = actual.iter().zip(&exact).enumerate();
            for (list, (actual, exact)) in lists {
                let blur = if list == 0 { self.by_rounded_weights(isa) } else { 0.0 };
                let allowed = allowed + if scaled { 5.0 * blur } else { blur };
                for (i, (actual, exact)) in actual.iter().zip(exact).enumerate() {
                    let actual = actual.to_f64();
                    let allowed = allowed * exact.abs().max(1.0);
                    let allowed = allowed + rounding::<E>(exact.abs() + allowed);
                    let near = (actual - exact).abs() <= allowed;
                    // Near the ends of the range a sum in another base need not be that sum.
                    assert!(
                        near || actual == *exact || exact.abs() > 1e37,
                        "{isa:?} {i}: {actual} {exact}"
                    );
                }
            }
            for (actual, exact) in actual[1].iter().zip(&exact[1]) {
                assert!(*exact != 0.0 || actual.to_f64() == 0.0);
            }
        }
    }
}

pub(super) fn causal(offset: isize) -> Band<'static> {
    prefixed(offset, 0)
}

pub(super) fn prefixed(offset: isize, prefix: usize) -> Band<'static> {
    let offset = Offset::Same(offset);
    Band::Diagonal(Diagonal { offset, ahead: Some(0), prefix, ..Diagonal::ALL })
}

/// The block repeated along the axes that `repeated` says, and a copy of all that it shows.
pub(super) fn repeated<E: Float>(block: &Block<E>, repeated: [bool; 4]) -> [Block<E>; 2] {
    let mut layout = block.layout;
    for axis in (0..4).filter(|&axis| repeated[axis]) {
        layout.strides[axis] = 0;
    }
    let shown = Block { data: block.data.clone(), layout };
    let copy = Block { data: shown.pack(), layout: Layout::packed(&layout.dims) };
    [shown, copy]
}
