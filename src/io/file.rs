//! A safetensors file, or several that an index names, open for reading tensor by tensor.

use super::header;
use crate::error::{Error, Result};
use crate::tensor::{AnyTensor, FloatTensor};
use half::{bf16, f16};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Tensors in a safetensors file, or in the shards that an index (`….index.json`) names.
///
/// Opening reads the header alone and checks it against the file's length; tensors are read one by
/// one. A file that is truncated, or whose header is longer than the file, names a tensor twice, or
/// has offsets that overlap or leave gaps, is refused with a message that has the path.
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
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), shapeproof::Error>(())
/// ```
pub struct TensorFile {
    path: PathBuf,
    shards: Vec<Shard>,
    entries: BTreeMap<String, Entry>,
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
            file.add(path, |_| true)?;
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

    /// The tensor under a key. 16-bit floats become f32, which holds them exactly.
    ///
    /// # Errors
    /// Where there is no such key (the message has the nearest ones), or it holds no floats, or more
    /// than six axes.
    pub fn read(&mut self, key: &str) -> Result<FloatTensor> {
        let dims = self.dims(key).ok_or_else(|| self.missing(key))?;
        let rows = dims.first().copied().unwrap_or(1);
        self.read_rows(key, 0, rows)
    }

    /// `count` entries of the first axis, from `start` on. The caller has checked that they are there.
    pub(super) fn read_rows(
        &mut self,
        key: &str,
        start: usize,
        count: usize,
    ) -> Result<FloatTensor> {
        let entry = self.entries.get(key).ok_or_else(|| self.missing(key))?;
        let mut dims = entry.dims.clone();
        let rows = dims.first().copied().unwrap_or(1);
        debug_assert!(start + count <= rows);
        let row = entry.bytes.checked_div(rows).unwrap_or(0);
        if let Some(first) = dims.first_mut() {
            *first = count;
        }
        let shard = &mut self.shards[entry.shard];
        let mut bytes = vec![0; row * count];
        let from = SeekFrom::Start(entry.start + (row * start) as u64);
        shard
            .file
            .seek(from)
            .and_then(|_| shard.file.read_exact(&mut bytes))
            .map_err(|error| error.to_string())
            .and_then(|()| decode(entry.dtype, &dims, &bytes))
            .map_err(|message| Error::file(&shard.path, format!("key {key:?}: {message}")))
    }

    /// The error for a key that is not there: with the nearest that are.
    pub(super) fn missing(&self, key: &str) -> Error {
        let mut near: Vec<_> =
            self.keys().map(|other| (strsim::damerau_levenshtein(key, other), other)).collect();
        near.sort_unstable();
        let near: Vec<_> = near.iter().take(3).map(|(_, name)| format!("{name:?}")).collect();
        let near = if near.is_empty() { "none at all".into() } else { near.join(", ") };
        Error::file(&self.path, format!("no key {key:?}; the nearest are {near}"))
    }

    fn add(&mut self, path: PathBuf, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let mut file = File::open(&path).map_err(|error| Error::file(&path, error.to_string()))?;
        let (metadata, data) =
            header::read(&mut file).map_err(|message| Error::file(&path, message))?;
        let shard = self.shards.len();
        for (key, info) in metadata.tensors().into_iter().filter(|(key, _)| wanted(key)) {
            let (start, end) = info.data_offsets;
            let dims = info.shape.clone();
            let (start, bytes) = (data + start as u64, end - start);
            self.entries.insert(key, Entry { shard, dtype: info.dtype, dims, start, bytes });
        }
        self.shards.push(Shard { path, file });
        Ok(())
    }

    /// The shards that an index names: files beside it, each read for the keys that it is named for.
    fn add_index(&mut self) -> Result<()> {
        let path = self.path.clone();
        let refused = |message: String| Error::file(&path, message);
        let text = std::fs::read(&path).map_err(|error| refused(error.to_string()))?;
        let index: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| refused(format!("not JSON: {error}")))?;
        let map = index.get("weight_map").and_then(serde_json::Value::as_object);
        let map = map.ok_or_else(|| refused("no \"weight_map\": not an index of shards".into()))?;
        let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (key, shard) in map {
            let name = shard
                .as_str()
                .filter(|name| Path::new(name).file_name().is_some_and(|plain| plain == *name))
                .ok_or_else(|| {
                    refused(format!("key {key:?}: expected a file beside the index, found {shard}"))
                })?;
            shards.entry(name).or_default().push(key);
        }
        for (name, keys) in shards {
            self.add(path.with_file_name(name), |key| keys.contains(&key))?;
            if let Some(key) = keys.iter().find(|key| !self.entries.contains_key(**key)) {
                return Err(refused(format!(
                    "key {key:?} is not in {name:?}, where the index has it"
                )));
            }
        }
        Ok(())
    }
}

/// Floats from little-endian bytes, as many as the sizes say.
fn decode(dtype: Dtype, dims: &[usize], bytes: &[u8]) -> std::result::Result<FloatTensor, String> {
    fn each<const N: usize, E>(bytes: &[u8], make: impl Fn([u8; N]) -> E) -> Vec<E> {
        bytes.as_chunks().0.iter().map(|&chunk| make(chunk)).collect()
    }
    let tensor = match dtype {
        Dtype::F64 => {
            AnyTensor::try_from_vec(dims, each(bytes, f64::from_le_bytes)).map(FloatTensor::F64)
        }
        Dtype::F32 => {
            AnyTensor::try_from_vec(dims, each(bytes, f32::from_le_bytes)).map(FloatTensor::F32)
        }
        Dtype::F16 => {
            let data = each(bytes, |chunk| f16::from_le_bytes(chunk).to_f32());
            AnyTensor::try_from_vec(dims, data).map(FloatTensor::F32)
        }
        Dtype::BF16 => {
            let data = each(bytes, |chunk| bf16::from_le_bytes(chunk).to_f32());
            AnyTensor::try_from_vec(dims, data).map(FloatTensor::F32)
        }
        other => return Err(format!("expected floats, found {other:?}")),
    };
    tensor.map_err(|error| error.to_string())
}
