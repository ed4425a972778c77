//! Saving tensors and a model's parameters.

use super::Checkpoint;
use crate::error::{Error, Result};
use crate::kernel::index::concat;
use crate::nn::{Module, parameters};
use crate::tensor::{AnyTensor, FloatTensor};
use safetensors::Dtype;
use safetensors::tensor::{View, serialize_to_file};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

impl Checkpoint<'_> {
    /// Writes the parameters of `module` to a safetensors file, by the same rules that load them: a
    /// round trip changes no bit. The file appears as a whole or not at all.
    ///
    /// # Errors
    /// Where the file cannot be written, or the rules give two parameters one key, or some parts of a
    /// key but not all.
    pub fn save<M: Module + ?Sized>(&self, module: &M, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut parts: BTreeMap<String, Parts> = BTreeMap::new();
        for (name, parameter) in parameters(module) {
            let place = self.place(&name, parameter, path)?;
            let value = parameter.value();
            let value = if place.transposed { value.transposed() } else { value };
            let (index, of) = place.source.part.unwrap_or((0, 1));
            let parts =
                parts.entry(place.source.key).or_insert_with(|| Parts::new(of, place.along));
            parts
                .add(index, of, value)
                .map_err(|message| Error::file(path, message).for_parameter(&name))?;
        }
        let tensors = parts.into_iter().map(|(key, parts)| match parts.joined() {
            Some(tensor) => Ok((key, tensor)),
            None => Err(Error::file(
                path,
                format!("key {key:?}: some of its parts belong to no parameter"),
            )),
        });
        save_tensors(path, tensors.collect::<Result<Vec<_>>>()?)
    }
}

/// Writes tensors to a safetensors file. It appears as a whole or not at all: an interrupted write
/// leaves what was there before.
///
/// # Errors
/// Where the file cannot be written.
pub fn save_tensors<K: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (K, FloatTensor)>,
) -> Result<()> {
    let path = path.as_ref();
    let refused = |message: String| Error::file(path, message);
    let name = path.file_name().ok_or_else(|| refused("not the name of a file".into()))?;
    // A name of this process's own, beside the target: renaming within a directory is atomic.
    let mut unfinished = name.to_os_string();
    unfinished.push(format!(".{}.part", std::process::id()));
    let unfinished = path.with_file_name(unfinished);
    let tensors: Vec<_> =
        tensors.into_iter().map(|(key, tensor)| (key.as_ref().to_owned(), tensor)).collect();
    let written =
        serialize_to_file(tensors.iter().map(|(key, tensor)| (key, tensor)), None, &unfinished)
            .map_err(|error| error.to_string())
            .and_then(|()| fs::rename(&unfinished, path).map_err(|error| error.to_string()));
    written.map_err(|message| {
        // The write has failed already; that the rest of it cannot be removed adds nothing.
        let _ = fs::remove_file(&unfinished);
        refused(message)
    })
}

/// What the parameters of one key put together.
struct Parts {
    values: Vec<Option<FloatTensor>>,
    along: usize,
}

impl Parts {
    fn new(of: usize, along: usize) -> Self {
        Parts { values: (0..of).map(|_| None).collect(), along }
    }

    fn add(
        &mut self,
        index: usize,
        of: usize,
        value: FloatTensor,
    ) -> std::result::Result<(), String> {
        let parts = self.values.len();
        match self.values.get_mut(index) {
            Some(slot @ None) if of == parts => *slot = Some(value),
            _ => {
                return Err(format!("part {index} of {of} is taken, or the key has {parts} parts"));
            }
        }
        Ok(())
    }

    fn joined(self) -> Option<FloatTensor> {
        let values: Vec<_> = self.values.into_iter().collect::<Option<_>>()?;
        if values.len() == 1 {
            return values.into_iter().next();
        }
        Some(match values.first()? {
            FloatTensor::F32(_) => FloatTensor::F32(join(&values, self.along)),
            FloatTensor::F64(_) => FloatTensor::F64(join(&values, self.along)),
        })
    }
}

fn join<E: crate::Float>(values: &[FloatTensor], along: usize) -> AnyTensor<E> {
    let values: Vec<AnyTensor<E>> = values.iter().map(FloatTensor::to).collect();
    let views: Vec<_> = values.iter().map(AnyTensor::view).collect();
    let mut dims = values[0].dims().to_vec();
    dims[along] = values.iter().map(|value| value.dims()[along]).sum();
    AnyTensor::from_packed(&dims, concat(&views, along))
}

impl View for &FloatTensor {
    fn dtype(&self) -> Dtype {
        match self {
            FloatTensor::F32(_) => Dtype::F32,
            FloatTensor::F64(_) => Dtype::F64,
        }
    }
    fn shape(&self) -> &[usize] {
        self.dims()
    }
    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            FloatTensor::F32(tensor) => {
                tensor.to_vec().into_iter().flat_map(f32::to_le_bytes).collect()
            }
            FloatTensor::F64(tensor) => {
                tensor.to_vec().into_iter().flat_map(f64::to_le_bytes).collect()
            }
        }
    }
    fn data_len(&self) -> usize {
        self.dims().iter().product::<usize>() * self.dtype().bitsize() / 8
    }
}
