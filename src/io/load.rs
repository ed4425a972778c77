//! Loading a model's parameters.

use super::place::Place;
use super::{Source, TensorFile, WeightLayout, quoted};
use crate::error::{Error, Result};
use crate::nn::{AnyParameter, Module, parameters, parameters_mut};
use crate::tensor::ParameterId;
use std::collections::HashMap;
use std::ops::Range;
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
    exact: bool,
}

/// What a load left out, because the caller allowed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Parameters that the file does not have; they keep their values.
    pub missing: Vec<String>,
    /// Keys of the file that no parameter uses.
    pub extra: Vec<String>,
}

/// A parameter that the file has.
struct Found {
    name: String,
    id: ParameterId,
    place: Place,
}

impl<'r> Checkpoint<'r> {
    /// A file whose keys are the parameters' names, and whose weights have this order.
    pub fn new(layout: WeightLayout) -> Self {
        Checkpoint {
            layout,
            source: Box::new(|name| Source::key(name)),
            missing: Box::new(|_| false),
            extra: Box::new(|_| false),
            exact: false,
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

    /// Keys of the file that may go unused: those that `allowed` holds of.
    pub fn allow_extra(mut self, allowed: impl Fn(&str) -> bool + 'r) -> Self {
        self.extra = Box::new(allowed);
        self
    }

    /// For a training run: halves are set to what an optimizer goes on from, which is not rounded.
    pub(super) fn exactly(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Sets the parameters of `module` from the file, or the index of a sharded one, at `path`.
    ///
    /// Reads tensor by tensor: beside the model there is never more than one tensor in memory. All
    /// checks come before the first parameter is set; the values are read twice, so that a file that
    /// cannot be read to its end, or holds NaN or infinities, is refused before anything changes.
    /// The file must not be written to meanwhile; one that [`save`](Self::save) replaces is read to
    /// its end as it was.
    ///
    /// # Errors
    /// Where the file is not what it claims ([`TensorFile`]); a key, or a part of one, is missing or
    /// unused, or of another shape or type; a number is not finite, or not as an element of the
    /// parameter. The model is as it was.
    pub fn load<M: Module + ?Sized>(
        &self,
        module: &mut M,
        path: impl AsRef<Path>,
    ) -> Result<Loaded> {
        self.load_from(module, &TensorFile::open(path)?)
    }

    /// As [`load`](Self::load), from a file that is open.
    pub(super) fn load_from<M: Module + ?Sized>(
        &self,
        module: &mut M,
        file: &TensorFile,
    ) -> Result<Loaded> {
        let (places, loaded) = self.places(module, file)?;
        for Found { name, place, .. } in &places {
            place.check_finite(file).map_err(|error| error.for_parameter(name))?;
        }
        let places: HashMap<_, _> =
            places.into_iter().map(|found| (found.id, found.place)).collect();
        for (name, parameter) in parameters_mut(module) {
            if let Some(place) = places.get(&parameter.id()) {
                place
                    .read(file)
                    .and_then(|value| match self.exact {
                        true => parameter.try_set_exact(value),
                        false => parameter.try_set(value),
                    })
                    .map_err(|error| error.for_parameter(&name))?;
            }
        }
        Ok(loaded)
    }

    /// The place of each parameter that the file has.
    fn places<M: Module + ?Sized>(
        &self,
        module: &M,
        file: &TensorFile,
    ) -> Result<(Vec<Found>, Loaded)> {
        let mut loaded = Loaded::default();
        let mut used: HashMap<String, (usize, Vec<Range<usize>>)> = HashMap::new();
        let mut places = Vec::new();
        for (name, parameter) in parameters(module) {
            let place = self.place(&name, parameter, file.path())?;
            let key = &place.source.key;
            let Some(found) = file.dims(key) else {
                if !(self.missing)(&name) {
                    return Err(file.missing(key).for_parameter(&name));
                }
                loaded.missing.push(name);
                continue;
            };
            place
                .check(found, parameter)
                .map_err(|message| file.refused(key, message).for_parameter(&name))?;
            let (parts, of) = (place.range(), place.entries());
            let used = used.entry(key.clone()).or_insert_with(|| (of, Vec::new()));
            used.1.push(parts);
            let id = parameter.id();
            places.push(Found { name, id, place });
        }
        for key in file.keys() {
            let unused = match used.get_mut(key) {
                None => "belongs to no parameter; `allow_extra` lets a key be".to_owned(),
                Some((of, parts)) => match first_gap(*of, parts) {
                    None => continue,
                    Some(gap) => {
                        format!("entries {} to {} belong to no parameter", gap.start, gap.end - 1)
                    }
                },
            };
            if !(self.extra)(key) {
                return Err(file.refused(key, unused));
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
        let key = source.key.clone();
        let element = if self.exact { parameter.wide_element() } else { parameter.element() };
        Place::of(parameter, source, self.layout, element).map_err(|message| {
            Error::file(path, format!("key {}: {message}", quoted(&key))).for_parameter(name)
        })
    }
}

/// The first of `of` entries that are in none of `parts`.
fn first_gap(of: usize, parts: &mut [Range<usize>]) -> Option<Range<usize>> {
    parts.sort_unstable_by_key(|part| part.start);
    let mut end = 0;
    for part in parts.iter().chain([&(of..of)]) {
        if part.start > end {
            return Some(end..part.start);
        }
        end = end.max(part.end);
    }
    None
}
