//! What a mask says, kept as long as it is needed: the forward pass reads it at once, the backward pass
//! again.

use super::MaskFor;
use crate::element::Float;
use crate::kernel::attention::{
    Band, Blocks, Diagonal, Distances, Fill, Mask as KernelMask, Offset, ScoreBlock, Slopes,
};
use crate::kernel::layout::Dims;
use crate::tensor::AnyTensor;
use std::sync::Arc;

/// What masks say of scores: each adds its part.
#[doc(hidden)]
#[derive(Clone)]
pub struct MaskParts<E> {
    /// Batch, heads, queries, keys.
    scores: Dims,
    /// The first keys, this many, stand before those of the mask, and every query sees them.
    pub(super) extra: usize,
    /// Over all axes of the scores, as are biases.
    pub(super) keep: Vec<AnyTensor<bool>>,
    pub(super) bands: Vec<BandOf>,
    pub(super) blocks: Vec<(Arc<Listed>, ByHead)>,
    pub(super) bias: Vec<AnyTensor<E>>,
    pub(super) slopes: Vec<(AnyTensor<E>, Start)>,
    pub(super) distances: Vec<(AnyTensor<E>, isize, Start)>,
    pub(super) fills: Vec<Arc<FillFn<E>>>,
    pub(super) sinks: Vec<AnyTensor<E>>,
}

/// What writes a block of scores.
pub(super) type FillFn<E> = dyn Fn(&mut ScoreBlock<'_, E>) + Send + Sync;

/// Whether each head has blocks of its own.
pub(super) type ByHead = bool;

/// A run of keys for each query.
#[derive(Clone)]
pub(super) enum BandOf {
    Diagonal(Diagonal<'static>, Start),
    Ranges(Arc<[[usize; 2]]>),
}

/// Where the first query stands, for each sample or for all.
#[doc(hidden)]
#[derive(Clone)]
pub struct Start(StartOf);

#[derive(Clone)]
enum StartOf {
    Same(isize),
    BySample(Arc<[isize]>),
}

/// The visible columns of each row of blocks, one row after the other.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) size: usize,
    pub(super) rows: usize,
    pub(super) starts: Vec<usize>,
    pub(super) columns: Vec<usize>,
}

impl Start {
    /// Query i stands at the key i + `offset`.
    pub(super) fn same(offset: isize) -> Self {
        Start(StartOf::Same(offset))
    }

    /// Query i of sample b stands at the key `starts[b]` + i.
    pub(super) fn by_sample(starts: &Arc<[isize]>) -> Self {
        Start(StartOf::BySample(starts.clone()))
    }

    /// The last query stands at the last key.
    pub(super) fn end_of<E: Float>(parts: &MaskParts<E>) -> Self {
        // Neither count exceeds isize::MAX: they are sizes of tensors.
        Start::same(parts.scores[3].cast_signed() - parts.scores[2].cast_signed())
    }

    pub(super) fn offset(&self) -> Offset<'_> {
        match &self.0 {
            StartOf::Same(offset) => Offset::Same(*offset),
            StartOf::BySample(starts) => Offset::BySample(starts),
        }
    }
}

impl<E: Float> MaskParts<E> {
    /// What `mask` says of scores of these sizes: batch, heads, queries, keys.
    pub(crate) fn of<Scores>(mask: &impl MaskFor<Scores, E>, scores: [usize; 4]) -> Self {
        let mut parts = MaskParts::nothing(Dims::new(&scores));
        mask.add_to(&mut parts);
        parts
    }

    /// A mask of the same scores that says nothing of them.
    pub(super) fn without_any(&self) -> Self {
        MaskParts::nothing(self.scores)
    }

    fn nothing(scores: Dims) -> Self {
        MaskParts {
            scores,
            extra: 0,
            keep: Vec::new(),
            bands: Vec::new(),
            blocks: Vec::new(),
            bias: Vec::new(),
            slopes: Vec::new(),
            distances: Vec::new(),
            fills: Vec::new(),
            sinks: Vec::new(),
        }
    }

    /// The same behind so many extra keys.
    pub(super) fn with_extra(self, extra: usize) -> Self {
        MaskParts { extra, ..self }
    }

    /// The sizes of the scores.
    pub(super) fn scores(&self) -> &Dims {
        &self.scores
    }

    /// In the words of the kernel.
    pub(super) fn lent(&self) -> KernelMask<'_, E> {
        let bands = self.bands.iter().map(|band| match band {
            BandOf::Ranges(ranges) => Band::Ranges(ranges),
            BandOf::Diagonal(diagonal, start) => {
                Band::Diagonal(Diagonal { offset: start.offset(), ..*diagonal })
            }
        });
        let blocks = self.blocks.iter().map(|(listed, by_head)| {
            let Listed { size, rows, starts, columns } = &**listed;
            Blocks { size: [*size; 2], starts, columns, rows: *rows, by_head: *by_head }
        });
        let slopes = self.slopes.iter();
        let distances = self.distances.iter();
        KernelMask {
            extra: self.extra,
            keep: self.keep.iter().map(AnyTensor::view).collect(),
            bands: bands.collect(),
            blocks: blocks.collect(),
            bias: self.bias.iter().map(AnyTensor::view).collect(),
            slopes: slopes
                .map(|(each, start)| Slopes { each: each.view(), offset: start.offset() })
                .collect(),
            distances: distances
                .map(|(table, first, start)| Distances {
                    table: table.view(),
                    first: *first,
                    offset: start.offset(),
                })
                .collect(),
            fills: self.fills.iter().map(|fill| Fill(&**fill)).collect(),
            sinks: self.sinks.iter().map(AnyTensor::view).collect(),
            ..KernelMask::NONE
        }
    }

    /// What a gradient may come through, in the order in which attention gives their gradients.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &AnyTensor<E>> {
        let slopes = self.slopes.iter().map(|(each, _)| each);
        let distances = self.distances.iter().map(|(table, ..)| table);
        self.bias.iter().chain(distances).chain(slopes).chain(&self.sinks)
    }

    /// The same, without what was recorded of its tensors.
    pub(super) fn detached(&self) -> Self {
        let mut parts = self.clone();
        parts.bias.iter_mut().for_each(|x| *x = x.detached());
        parts.slopes.iter_mut().for_each(|(x, _)| *x = x.detached());
        parts.distances.iter_mut().for_each(|(x, ..)| *x = x.detached());
        parts.sinks.iter_mut().for_each(|x| *x = x.detached());
        parts
    }
}
