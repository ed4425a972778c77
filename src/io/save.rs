//! Saving tensors and a model's parameters.

use super::header::LONGEST;
use super::{Checkpoint, quoted};
use crate::element::{Float, bf16, f16};
use crate::error::{Error, Result};
use crate::kernel::index::concat;
use crate::nn::{Module, parameters};
use crate::tensor::{AnyTensor, FloatTensor};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

impl Checkpoint<'_> {
    /// Writes the parameters of `module` to a safetensors file, by the same rules that load them: a
    /// round trip changes no bit. The file appears as a whole or not at all.
    ///
    /// # Errors
    /// Where the file cannot be written, or the rules give two parameters one key, or some parts of a
    /// key but not all.
    pub fn save<M: Module + ?Sized>(&self, module: &M, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut stored: BTreeMap<String, Stored> = BTreeMap::new();
        for (name, parameter) in parameters(module) {
            let place = self.place(&name, parameter, path)?;
            let value = parameter.value();
            let value = if place.transposed { value.transposed() } else { value };
            let (index, of) = place.source.part.unwrap_or((0, 1));
            let key = place.source.key;
            let taken = quoted(&key);
            let stored = stored.entry(key).or_insert_with(|| Stored::new(of, place.along));
            stored.add(index, of, value).map_err(|message| {
                Error::file(path, format!("key {taken}: {message}")).for_parameter(&name)
            })?;
        }
        for (key, stored) in &stored {
            stored
                .check()
                .map_err(|message| Error::file(path, format!("key {}: {message}", quoted(key))))?;
        }
        write(path, stored)
    }
}

/// Writes tensors to a safetensors file. It appears as a whole or not at all: an interrupted write
/// leaves what was there before.
///
/// # Errors
/// Where the file cannot be written, or two tensors have one key.
pub fn save_tensors<K: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (K, FloatTensor)>,
) -> Result<()> {
    let path = path.as_ref();
    let mut stored = BTreeMap::new();
    for (key, tensor) in tensors {
        let key = key.as_ref();
        if stored.insert(key.to_owned(), Stored::whole(tensor)).is_some() {
            return Err(Error::file(path, format!("key {}: given twice", quoted(key))));
        }
    }
    write(path, stored)
}

fn write(path: &Path, stored: BTreeMap<String, Stored>) -> Result<()> {
    let refused = |message: String| Error::file(path, message);
    if path.file_name().is_none() {
        return Err(refused("not the name of a file".into()));
    }
    let mut stored: Vec<_> = stored.into_iter().collect();
    // The format's order: the widest elements first, so that all are aligned.
    stored.sort_by_key(|(_, stored)| std::cmp::Reverse(stored.dtype()));
    let header = header(&stored).map_err(refused)?;
    let (unfinished, file) =
        create_beside(path).map_err(|error| refused(format!("cannot be written: {error}")))?;
    write_all(file, &header, &stored).and_then(|()| fs::rename(&unfinished, path)).map_err(
        |error| {
            // The write has failed already; that the rest of it cannot be removed adds nothing.
            let _ = fs::remove_file(&unfinished);
            refused(format!("cannot be written: {error}"))
        },
    )
}

/// The header, padded to a multiple of 8 bytes.
fn header(stored: &[(String, Stored)]) -> std::result::Result<Vec<u8>, String> {
    let mut infos = Vec::with_capacity(stored.len());
    let mut end = 0;
    for (key, stored) in stored {
        if key == "__metadata__" {
            return Err(format!("key {key:?}: the format has that name for itself"));
        }
        let (from, shape, dtype) = (end, stored.dims(), stored.dtype());
        end += shape.iter().product::<usize>() * dtype.bitsize() / 8;
        infos.push((key.clone(), TensorInfo { dtype, shape, data_offsets: (from, end) }));
    }
    let metadata = Metadata::new(None, infos).map_err(|error| error.to_string())?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() as u64 > LONGEST {
        let found = header.len();
        return Err(format!("expected a header of at most {LONGEST} bytes, found {found}"));
    }
    Ok(header)
}

/// A new file beside `path`, since renaming is atomic within a directory alone. The name is of this
/// call's own: others may be saving to the same path.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static SAVED: AtomicUsize = AtomicUsize::new(0);
    loop {
        let (process, count) = (std::process::id(), SAVED.fetch_add(1, Ordering::Relaxed));
        // Short, for the target's name may be as long as names can be.
        let unfinished = path.with_file_name(format!(".{process}.{count}.part"));
        match File::create_new(&unfinished) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return Ok((unfinished, created?)),
        }
    }
}

fn write_all(file: File, header: &[u8], stored: &[(String, Stored)]) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 16, file);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header)?;
    for (_, stored) in stored {
        match stored.dtype() {
            Dtype::F64 => write_numbers(&mut file, &stored.joined(), f64::to_le_bytes),
            Dtype::F16 => write_numbers(&mut file, &stored.joined(), f16::to_le_bytes),
            Dtype::BF16 => write_numbers(&mut file, &stored.joined(), bf16::to_le_bytes),
            _ => write_numbers(&mut file, &stored.joined(), f32::to_le_bytes),
        }?;
    }
    // A rename may reach the disk before what was written.
    file.into_inner()?.sync_all()
}

fn write_numbers<const N: usize, E: Float>(
    file: &mut impl Write,
    tensor: &AnyTensor<E>,
    bytes: impl Fn(E) -> [u8; N],
) -> io::Result<()> {
    let packed = tensor.packed();
    packed.as_slice().unwrap_or_default().iter().try_for_each(|&x| file.write_all(&bytes(x)))
}

/// What a key holds: the parts that parameters put together.
struct Stored {
    parts: BTreeMap<usize, FloatTensor>,
    of: usize,
    along: usize,
}

impl Stored {
    fn new(of: usize, along: usize) -> Self {
        Stored { parts: BTreeMap::new(), of, along }
    }

    fn whole(tensor: FloatTensor) -> Self {
        Stored { parts: BTreeMap::from([(0, tensor)]), of: 1, along: 0 }
    }

    fn add(
        &mut self,
        index: usize,
        of: usize,
        value: FloatTensor,
    ) -> std::result::Result<(), String> {
        if of != self.of {
            return Err(format!("expected one of {} parts, found part {index} of {of}", self.of));
        }
        let first = self.parts.values().next();
        let (dims, element) = (value.dims(), value.element());
        if let Some(first) =
            first.filter(|first| first.dims() != dims || first.element() != element)
        {
            let (expected, of) = (first.dims(), first.element());
            return Err(format!(
                "expected a part of sizes {expected:?} in {of}, found {dims:?} in {element}"
            ));
        }
        match self.parts.insert(index, value) {
            None => Ok(()),
            Some(_) if of == 1 => Err("belongs to another parameter already".into()),
            Some(_) => Err(format!("part {index} of {of} belongs to another parameter already")),
        }
    }

    /// Whether no part is missing.
    fn check(&self) -> std::result::Result<(), String> {
        match (0..self.of).find(|index| !self.parts.contains_key(index)) {
            Some(index) => Err(format!("part {index} of {} belongs to no parameter", self.of)),
            None => Ok(()),
        }
    }

    fn dtype(&self) -> Dtype {
        match self.parts.values().next() {
            Some(FloatTensor::F64(_)) => Dtype::F64,
            Some(FloatTensor::F16(_)) => Dtype::F16,
            Some(FloatTensor::BF16(_)) => Dtype::BF16,
            _ => Dtype::F32,
        }
    }

    fn dims(&self) -> Vec<usize> {
        let mut dims = self.parts.values().next().map_or(Vec::new(), |part| part.dims().to_vec());
        if let Some(size) = dims.get_mut(self.along) {
            *size *= self.of;
        }
        dims
    }

    fn joined<E: Float>(&self) -> AnyTensor<E> {
        let parts: Vec<AnyTensor<E>> = self.parts.values().map(FloatTensor::to).collect();
        match &parts[..] {
            [whole] => whole.clone(),
            _ => {
                let views: Vec<_> = parts.iter().map(AnyTensor::view).collect();
                AnyTensor::from_packed(&self.dims(), concat(&views, self.along))
            }
        }
    }
}
