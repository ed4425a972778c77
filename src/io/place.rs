//! A parameter's tensor within a file.

use super::file::Part;
use super::{Source, TensorFile, WeightLayout};
use crate::element::{Element, bf16, f16};
use crate::error::Result;
use crate::nn::AnyParameter;
use crate::tensor::{FloatTensor, shape_text};
use std::ops::Range;

/// Which tensor of a file, or which part of one, a parameter is.
pub(super) struct Place {
    pub(super) source: Source,
    /// The file's sizes, of this parameter's part alone.
    dims: Vec<usize>,
    /// Along which of the file's axes the parts lie: a weight's along its output axis, those of any
    /// other tensor along the first.
    pub(super) along: usize,
    /// Whether the file has the parameter's two axes the other way round.
    pub(super) transposed: bool,
    /// What its elements are read as.
    element: &'static str,
}

impl Place {
    /// Where `source` puts a parameter, in a file that has weights in the order `layout`, to be read as
    /// `element`. The message of a refusal lacks the path.
    pub(super) fn of(
        parameter: &dyn AnyParameter,
        source: Source,
        layout: WeightLayout,
        element: &'static str,
    ) -> std::result::Result<Self, String> {
        let layout = source.layout.unwrap_or(layout);
        let mut dims = parameter.dims().to_vec();
        let projection = parameter.is_projection() && dims.len() == 2;
        let transposed = projection && layout == WeightLayout::OutIn;
        if transposed {
            dims.reverse();
        }
        if let Some((index, of)) = source.part {
            if index >= of {
                return Err(format!("expected a part below {of}, found part {index}"));
            }
            if dims.is_empty() {
                return Err(format!("expected all of a single number, found part {index} of {of}"));
            }
        }
        let along = usize::from(projection && layout == WeightLayout::InOut);
        Ok(Place { source, dims, along, transposed, element })
    }

    /// Whether the file's tensor has the sizes of all parts together.
    pub(super) fn check(
        &self,
        found: &[usize],
        parameter: &dyn AnyParameter,
    ) -> std::result::Result<(), String> {
        let mut expected = self.dims.clone();
        let mut part = String::new();
        if let Some((index, of)) = self.source.part {
            part = format!("part {index} of {of}, ");
            let size = &mut expected[self.along];
            *size = size.checked_mul(of).ok_or_else(|| format!("{of} parts of {size} overflow"))?;
        }
        if found == expected {
            return Ok(());
        }
        let swapped = found.len() == 2 && expected.iter().rev().eq(found);
        let hint = match (swapped, parameter.is_projection()) {
            (false, _) => "",
            (true, false) => "; transposed?",
            (true, true) => "; transposed? its layout may be the other one",
        };
        let shape = shape_text(parameter.axes(), &parameter.dims());
        let order = if self.transposed { " as [out, in]" } else { "" };
        Err(format!("expected sizes {expected:?} for {part}{shape}{order}, found {found:?}{hint}"))
    }

    /// How many entries the tensor's parted axis has. The tensor has been checked.
    pub(super) fn entries(&self) -> usize {
        let (_, of) = self.source.part.unwrap_or((0, 1));
        self.dims.get(self.along).map_or(1, |size| size * of)
    }

    /// Which of them are the parameter's.
    pub(super) fn range(&self) -> Range<usize> {
        let (index, _) = self.source.part.unwrap_or((0, 1));
        let size = self.dims.get(self.along).copied().unwrap_or(1);
        index * size..(index + 1) * size
    }

    /// Refuses numbers that are not finite as the parameter's elements.
    pub(super) fn check_finite(&self, file: &TensorFile) -> Result<()> {
        let (key, part) = (&self.source.key, self.part());
        match self.element {
            f64::NAME => file.check_finite::<f64>(key, part),
            f16::NAME => file.check_finite::<f16>(key, part),
            bf16::NAME => file.check_finite::<bf16>(key, part),
            _ => file.check_finite::<f32>(key, part),
        }
    }

    /// The parameter's value, its axes in the parameter's order.
    pub(super) fn read(&self, file: &TensorFile) -> Result<FloatTensor> {
        let (key, part) = (&self.source.key, self.part());
        let tensor = match self.element {
            f64::NAME => file.read_as(key, part).map(FloatTensor::F64),
            f16::NAME => file.read_as(key, part).map(FloatTensor::F16),
            bf16::NAME => file.read_as(key, part).map(FloatTensor::BF16),
            _ => file.read_as(key, part).map(FloatTensor::F32),
        }?;
        Ok(if self.transposed { tensor.transposed() } else { tensor })
    }

    fn part(&self) -> Option<Part> {
        self.source.part.map(|_| {
            let Range { start, end } = self.range();
            Part { axis: self.along, start, len: end - start }
        })
    }
}
