//! A safetensors file, or several that an index names, open for reading tensor by tensor.

use super::decode::{Decode, Kind, Runs, floats, integers};
use super::{header, index, quoted};
use crate::element::{Element, Float};
use crate::error::{Error, Result};
use crate::kernel::layout::{MAX_RANK, checked_count};
use crate::tensor::{AnyTensor, FloatTensor};
use safetensors::Dtype;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Display, Formatter};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Tensors in a safetensors file, or in the shards that an index (`….index.json`) names.
///
/// Opening reads the header alone and checks it against the file's length; tensors are read one by
/// one. A file that is truncated, or whose header is longer than the file, names a tensor twice, or
/// has offsets that overlap or leave gaps, is refused with a message that has the path. So is an
/// index where a shard is missing, lacks a tensor that it is named for, or has one that another
/// shard has too.
///
/// # Examples
/// ```
/// use shapeproof::{save_tensors, AnyTensor, FloatTensor, TensorFile};
///
/// let path = std::env::temp_dir().join("shapeproof-tensor-file-example.safetensors");
/// let vectors = AnyTensor::try_from_vec(&[2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// save_tensors(&path, [("vectors", FloatTensor::new(vectors.clone()))])?;
///
/// let mut file = TensorFile::open(&path)?;
/// assert_eq!(file.keys().collect::<Vec<_>>(), ["vectors"]);
/// assert_eq!(file.read("vectors")?.to::<f32>(), vectors);
/// assert!(file.read("vector").unwrap_err().to_string().contains("the nearest are \"vectors\""));
/// assert!(format!("{file:?}").ends_with("{\"vectors\": [2, 3]}"));
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub struct TensorFile {
    path: PathBuf,
    shards: Vec<Shard>,
    entries: BTreeMap<String, Entry>,
}

impl Debug for TensorFile {
    /// The path, and the sizes under each key.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TensorFile {:?} ", self.path)?;
        f.debug_map().entries(self.entries.iter().map(|(key, entry)| (key, &entry.dims))).finish()
    }
}

struct Shard {
    path: PathBuf,
    file: File,
}

struct Entry {
    shard: usize,
    dtype: Dtype,
    dims: Vec<usize>,
    start: u64,
    bytes: usize,
}

/// `len` entries of an axis, from `start` on.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) axis: usize,
    pub(super) start: usize,
    pub(super) len: usize,
}

impl TensorFile {
    /// Opens a `.safetensors` file, or the `.index.json` of a sharded one.
    ///
    /// # Errors
    /// Where it cannot be read or is not what it claims.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let mut file =
            TensorFile { path: path.clone(), shards: Vec::new(), entries: BTreeMap::new() };
        if path.extension().is_some_and(|extension| extension == "json") {
            file.add_index()?;
        } else {
            file.add(path)?;
        }
        Ok(file)
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys, in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The sizes of the tensor under a key, or `None` where there is none.
    pub fn dims(&self, key: &str) -> Option<&[usize]> {
        self.entries.get(key).map(|entry| &entry.dims[..])
    }

    /// The tensor under a key, of the elements that the file has.
    ///
    /// # Errors
    /// Where there is no such key (the message has the nearest ones), or it holds no floats, or more
    /// than six axes.
    pub fn read(&mut self, key: &str) -> Result<FloatTensor> {
        match self.entry(key)?.dtype {
            Dtype::F64 => self.read_as(key, None).map(FloatTensor::F64),
            Dtype::F16 => self.read_as(key, None).map(FloatTensor::F16),
            Dtype::BF16 => self.read_as(key, None).map(FloatTensor::BF16),
            _ => self.read_as(key, None).map(FloatTensor::F32),
        }
    }

    /// The whole numbers under a key, of any type but U64, such as tokens; booleans, such as masks, as 0
    /// and 1.
    ///
    /// # Errors
    /// Where there is no such key (the message has the nearest ones), or it holds floats or U64, or more
    /// than six axes.
    ///
    /// # Examples
    /// ```
    /// use shapeproof::{Batch, C, Key, TensorFile};
    ///
    /// # let path = std::env::temp_dir().join("shapeproof-integers-example.safetensors");
    /// # let header = r#"{"keep":{"dtype":"BOOL","shape":[1,3],"data_offsets":[0,3]}}"#;
    /// # let length = (header.len() as u64).to_le_bytes();
    /// # std::fs::write(&path, [&length[..], header.as_bytes(), &[1, 1, 0]].concat()).unwrap();
    /// let mut file = TensorFile::open(&path)?; // `keep` is a mask that PyTorch has saved
    /// let keep = file.read_integers("keep")?.try_typed((Batch(C::<1>), Key(C::<3>)))?;
    /// assert_eq!(keep.map(|keep| keep != 0).to_vec(), [true, true, false]);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), shapeproof::Error>(())
    /// ```
    pub fn read_integers(&mut self, key: &str) -> Result<AnyTensor<i64>> {
        self.read_kind(key, None, integers())
    }

    /// The floats under a key, or a part of them, each rounded to `E`. The caller has checked that the part
    /// is there.
    pub(super) fn read_as<E: Float>(&self, key: &str, part: Option<Part>) -> Result<AnyTensor<E>> {
        self.read_kind(key, part, floats())
    }

    fn read_kind<E: Element>(
        &self,
        key: &str,
        part: Option<Part>,
        kind: Kind<E>,
    ) -> Result<AnyTensor<E>> {
        let entry = self.entry(key)?;
        if entry.dims.len() > MAX_RANK {
            let axes = entry.dims.len();
            return Err(
                self.refused(key, format!("expected at most {MAX_RANK} axes, found {axes}"))
            );
        }
        let dims = entry.dims_of(part);
        let count = checked_count(&dims)
            .ok_or_else(|| self.refused(key, Error::count_overflow(&dims).to_string()))?;
        let mut data = Vec::new();
        self.for_each_piece(key, part, kind, |decode, piece| {
            // Not before: bytes of another kind are refused without an allocation.
            data.reserve_exact(count - data.len());
            decode(piece, &mut data);
            Ok(())
        })?;
        AnyTensor::try_from_vec(&dims, data).map_err(|error| self.refused(key, error.to_string()))
    }

    /// Whether a tensor, or a part of it, holds finite numbers alone once each is rounded to `E`.
    /// Keeps none of them.
    pub(super) fn check_finite<E: Float>(&self, key: &str, part: Option<Part>) -> Result<()> {
        let (mut numbers, mut done) = (Vec::new(), 0);
        self.for_each_piece(key, part, floats::<E>(), |decode, piece| {
            numbers.clear();
            decode(piece, &mut numbers);
            if let Some(at) = numbers.iter().position(|number| !number.to_f64().is_finite()) {
                let (number, at, element) = (numbers[at], done + at, E::NAME);
                return Err(format!("expected finite {element} numbers, found {number:?} at {at}"));
            }
            done += numbers.len();
            Ok(())
        })
    }

    fn for_each_piece<E>(
        &self,
        key: &str,
        part: Option<Part>,
        kind: Kind<E>,
        mut each: impl FnMut(Decode<E>, &[u8]) -> std::result::Result<(), String>,
    ) -> Result<()> {
        let entry = self.entry(key)?;
        let decode = (kind.decode)(entry.dtype).ok_or_else(|| {
            self.refused(key, format!("expected {}, found {}", kind.types, entry.dtype))
        })?;
        entry
            .runs(part)
            .for_each(&self.shards[entry.shard].file, |piece| each(decode, piece))
            .map_err(|message| self.refused(key, message))
    }

    fn entry(&self, key: &str) -> Result<&Entry> {
        self.entries.get(key).ok_or_else(|| self.missing(key))
    }

    /// An error about a key: with the file that has it.
    pub(super) fn refused(&self, key: &str, message: impl Display) -> Error {
        let shard = self.entries.get(key).and_then(|entry| self.shards.get(entry.shard));
        let path = shard.map_or(&self.path, |shard| &shard.path);
        Error::file(path, format!("key {}: {message}", quoted(key)))
    }

    /// The error for a key that is not there: with the nearest that are. Those first that the key
    /// is the end of, or that are the end of the key: a prefix is what differs most often.
    pub(super) fn missing(&self, key: &str) -> Error {
        // Comparing takes time and memory by the product of the lengths.
        let longest = 4 * key.len() + 64;
        let mut near: Vec<_> = self
            .keys()
            .filter(|other| other.len() <= longest)
            .map(|other| {
                let is_end = other.ends_with(key) || key.ends_with(other);
                (!is_end, strsim::damerau_levenshtein(key, other), other)
            })
            .collect();
        near.sort_unstable();
        let near: Vec<_> = near.iter().take(3).map(|(.., name)| quoted(name)).collect();
        let near = if near.is_empty() { "none at all".into() } else { near.join(", ") };
        Error::file(&self.path, format!("no key {}; the nearest are {near}", quoted(key)))
    }

    /// Adds the tensors of one file.
    fn add(&mut self, path: PathBuf) -> Result<()> {
        let refused = |message: String| Error::file(&path, message);
        let mut file =
            File::open(&path).map_err(|error| refused(format!("cannot be opened: {error}")))?;
        let (tensors, data) = header::read(&mut file).map_err(refused)?;
        let shard = self.shards.len();
        for (key, info) in tensors {
            if let Some(other) = self.entries.get(&key) {
                let (key, other) = (quoted(&key), self.shards[other.shard].path.display());
                return Err(refused(format!("key {key}: {other} has it too")));
            }
            let (start, end) = info.data_offsets;
            let (start, bytes) = (data + start as u64, end - start);
            let entry = Entry { shard, dtype: info.dtype, dims: info.shape, start, bytes };
            self.entries.insert(key, entry);
        }
        self.shards.push(Shard { path, file });
        Ok(())
    }

    /// Adds the shards that an index names: files beside it.
    fn add_index(&mut self) -> Result<()> {
        let map = index::read(&self.path).map_err(|message| Error::file(&self.path, message))?;
        let names: BTreeSet<_> = map.iter().map(|(_, name)| name).collect();
        for name in names {
            self.add(self.path.with_file_name(name))?;
        }
        for (key, name) in &map {
            let shard = self.entries.get(key).map(|entry| &self.shards[entry.shard].path);
            if shard.is_none_or(|path| *path != self.path.with_file_name(name)) {
                let (key, name) = (quoted(key), quoted(name));
                let message = format!("key {key}: expected in {name}, which does not have it");
                return Err(Error::file(&self.path, message));
            }
        }
        Ok(())
    }
}

impl Entry {
    fn dims_of(&self, part: Option<Part>) -> Vec<usize> {
        let mut dims = self.dims.clone();
        if let Some(part) = part {
            dims[part.axis] = part.len;
        }
        dims
    }

    fn runs(&self, part: Option<Part>) -> Runs {
        let (start, bytes) = (self.start, self.bytes);
        let Some(part) = part.filter(|_| bytes > 0) else {
            return Runs { start, runs: 1, length: bytes, step: bytes };
        };
        // No axis is empty, so these products are at most the number of bytes.
        let runs = self.dims[..part.axis].iter().product();
        let step = bytes / runs;
        let each = step / self.dims[part.axis];
        Runs { start: start + (part.start * each) as u64, runs, length: part.len * each, step }
    }
}
