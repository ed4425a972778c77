//! Loading a model's parameters.

use super::{Source, TensorFile, WeightLayout};
use crate::error::{Error, Result};
use crate::nn::{AnyParameter, Module, parameters, parameters_mut};
use crate::tensor::{FloatTensor, shape_text};
use std::collections::HashSet;
use std::path::Path;

/// How a model's parameters and a file's tensors belong together; loads and saves by that.
///
/// Every parameter must be in the file and every tensor of the file must be used, unless the caller
/// allows otherwise; shapes must agree. A refusal names the path, the key, and what was expected and
/// found, and leaves the model as it was.
///
/// # Examples
/// ```
/// use shapeproof::{Checkpoint, Linear, Model, Source, Vocab, WeightLayout, C};
///
/// let path = std::env::temp_dir().join("shapeproof-checkpoint-example.safetensors");
/// let head = Linear::<Model<C<4>>, Vocab<C<6>>>::zeros();
/// let checkpoint = Checkpoint::new(WeightLayout::OutIn)
///     .sources(|name| Source::key(format!("lm_head.{name}")));
/// checkpoint.save(&head, &path)?;
///
/// let mut other = Linear::<Model<C<4>>, Vocab<C<6>>>::zeros();
/// checkpoint.load(&mut other, &path)?;
///
/// let mut wrong = Linear::<Model<C<6>>, Vocab<C<4>>>::zeros();
/// let error = checkpoint.load(&mut wrong, &path).unwrap_err();
/// assert!(error.is_file());
/// assert!(error.to_string().contains("transposed?"));
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub struct Checkpoint<'r> {
    layout: WeightLayout,
    source: Box<dyn Fn(&str) -> Source + 'r>,
    missing: Box<dyn Fn(&str) -> bool + 'r>,
    extra: Box<dyn Fn(&str) -> bool + 'r>,
}

/// What a load left out, because the caller allowed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Parameters that the file does not have; they keep their values.
    pub missing: Vec<String>,
    /// Keys of the file that no parameter uses.
    pub extra: Vec<String>,
}

impl<'r> Checkpoint<'r> {
    /// A file whose keys are the parameters' names, and whose weights have this order.
    pub fn new(layout: WeightLayout) -> Self {
        Checkpoint {
            layout,
            source: Box::new(|name| Source::key(name)),
            missing: Box::new(|_| false),
            extra: Box::new(|_| false),
        }
    }

    /// The rule from a parameter's name to its place in the file.
    pub fn sources(mut self, rule: impl Fn(&str) -> Source + 'r) -> Self {
        self.source = Box::new(rule);
        self
    }

    /// Parameters, by name, that the file may lack; they keep their values.
    pub fn allow_missing(mut self, allowed: impl Fn(&str) -> bool + 'r) -> Self {
        self.missing = Box::new(allowed);
        self
    }

    /// Keys of the file that may go unused.
    pub fn allow_extra(mut self, allowed: impl Fn(&str) -> bool + 'r) -> Self {
        self.extra = Box::new(allowed);
        self
    }

    /// Sets the parameters of `module` from the file, or the index of a sharded one, at `path`.
    ///
    /// Reads tensor by tensor: beside the model there is never more than one tensor in memory. All
    /// checks come before the first parameter is set; the values are read twice, so that a file that
    /// cannot be read to its end, or holds NaN or infinities, is refused before anything changes.
    ///
    /// # Errors
    /// Where the file is not what it claims ([`TensorFile`]); a key is missing, unused, or of another
    /// shape or type; a value is not finite. The model is as it was.
    pub fn load<M: Module + ?Sized>(
        &self,
        module: &mut M,
        path: impl AsRef<Path>,
    ) -> Result<Loaded> {
        let mut file = TensorFile::open(path)?;
        let (places, loaded) = self.places(module, &file)?;
        for place in places.iter().flatten() {
            if !place.read(&mut file)?.is_finite() {
                let message = format!("key {:?} holds NaN or infinity", place.source.key);
                return Err(Error::file(file.path(), message));
            }
        }
        for ((_, parameter), place) in parameters_mut(module).into_iter().zip(&places) {
            if let Some(place) = place {
                parameter.try_set(place.read(&mut file)?)?;
            }
        }
        Ok(loaded)
    }

    /// Each parameter's place, in order; `None` for one that is missing and may be.
    fn places<M: Module + ?Sized>(
        &self,
        module: &M,
        file: &TensorFile,
    ) -> Result<(Vec<Option<Place>>, Loaded)> {
        let mut loaded = Loaded::default();
        let mut used = HashSet::new();
        let mut places = Vec::new();
        for (name, parameter) in parameters(module) {
            let place = self.place(&name, parameter, file.path())?;
            let key = &place.source.key;
            let Some(found) = file.dims(key) else {
                if !(self.missing)(&name) {
                    return Err(file.missing(key).for_parameter(&name));
                }
                loaded.missing.push(name);
                places.push(None);
                continue;
            };
            place.check(found, parameter).map_err(|message| {
                Error::file(file.path(), format!("key {key:?}: {message}")).for_parameter(&name)
            })?;
            used.insert(key.clone());
            places.push(Some(place));
        }
        for key in file.keys().filter(|key| !used.contains(*key)) {
            if !(self.extra)(key) {
                return Err(Error::file(
                    file.path(),
                    format!("key {key:?} belongs to no parameter"),
                ));
            }
            loaded.extra.push(key.to_owned());
        }
        Ok((places, loaded))
    }

    /// Where the rule puts a parameter.
    pub(super) fn place(
        &self,
        name: &str,
        parameter: &dyn AnyParameter,
        path: &Path,
    ) -> Result<Place> {
        let source = (self.source)(name);
        let layout = source.layout.unwrap_or(self.layout);
        let mut dims = parameter.dims().to_vec();
        let transposed = parameter.is_projection() && layout == WeightLayout::OutIn;
        if transposed {
            dims.reverse();
        }
        if let Some((index, of)) = source.part
            && (index >= of || dims.is_empty())
        {
            let message = format!("no part {index} of {of} under key {:?}", source.key);
            return Err(Error::file(path, message).for_parameter(name));
        }
        let along = usize::from(parameter.is_projection() && layout == WeightLayout::InOut);
        Ok(Place { source, dims, along, transposed })
    }
}

/// A parameter's tensor within a file.
pub(super) struct Place {
    pub(super) source: Source,
    /// The file's sizes, of this parameter's part alone.
    dims: Vec<usize>,
    /// Along which of the file's axes the parts lie: a weight's along its output axis, those of any
    /// other tensor along the first.
    pub(super) along: usize,
    /// Whether the file has the parameter's two axes the other way round.
    pub(super) transposed: bool,
}

impl Place {
    /// Whether the file's tensor has the sizes of all parts together.
    fn check(
        &self,
        found: &[usize],
        parameter: &dyn AnyParameter,
    ) -> std::result::Result<(), String> {
        let mut expected = self.dims.clone();
        if let (Some((_, of)), Some(size)) = (self.source.part, expected.get_mut(self.along)) {
            *size = size.saturating_mul(of);
        }
        if found == expected {
            return Ok(());
        }
        let swapped = found.len() == 2 && expected.iter().rev().eq(found);
        let hint = if swapped { "; transposed? its layout may be the other one" } else { "" };
        let shape = shape_text(parameter.axes(), &parameter.dims());
        Err(format!("expected {expected:?} for {shape}, found {found:?}{hint}"))
    }

    /// The parameter's value, its axes in the parameter's order.
    fn read(&self, file: &mut TensorFile) -> Result<FloatTensor> {
        let key = &self.source.key;
        let Some((index, _)) = self.source.part else {
            let tensor = file.read(key)?;
            return Ok(if self.transposed { tensor.transposed() } else { tensor });
        };
        let size = self.dims[self.along];
        if self.along > 0 {
            return Ok(file.read(key)?.part(self.along, index * size, size));
        }
        let tensor = file.read_rows(key, index * size, size)?;
        Ok(if self.transposed { tensor.transposed() } else { tensor })
    }
}
