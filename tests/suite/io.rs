//! Files: what is saved is loaded again bit for bit, and what is not right is refused.

mod bias;
pub(crate) mod damage;
mod header;
mod layout;
mod names;
mod parts;
mod places;
mod python;
mod round_trip;
mod saving;
mod shards;
mod values;

use crate::modules::{bits, set_each};
use shapeproof::{AnyTensor, Checkpoint, FloatTensor, Module, WeightLayout};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of this test's own, gone when it ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("shapeproof-suite-io-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The names of the files in it.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file of this header and data.
fn raw(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A file of one tensor.
fn one(key: &str, dtype: &str, dims: &[usize], data: &[u8]) -> Vec<u8> {
    let end = data.len();
    let header =
        format!(r#"{{{key:?}:{{"dtype":"{dtype}","shape":{dims:?},"data_offsets":[0,{end}]}}}}"#);
    raw(&header, data)
}

/// A tensor for `save_tensors`.
fn tensor(dims: &[usize], data: &[f32]) -> FloatTensor {
    FloatTensor::new(AnyTensor::try_from_vec(dims, data.to_vec()).unwrap())
}

/// The bytes of these numbers in a file.
fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Gives every number of the module a value that no other has, with bits down to the last.
fn fill(module: &mut impl Module, seed: u32) {
    let mut count = f64::from(seed) * 1000.0;
    set_each(module, |_| {
        count += 1.0;
        (count / 7.0).sin()
    });
}

fn out_in<'r>() -> Checkpoint<'r> {
    Checkpoint::new(WeightLayout::OutIn)
}

fn in_out<'r>() -> Checkpoint<'r> {
    Checkpoint::new(WeightLayout::InOut)
}

/// Saves `from`, loads it into `to`, which has other values, and compares all bits.
fn round_trip<M: Module>(checkpoint: &Checkpoint, from: &mut M, to: &mut M) {
    let folder = Folder::new();
    let path = folder.path("model.safetensors");
    fill(from, 1);
    fill(to, 2);
    assert_ne!(bits(from), bits(to));
    checkpoint.save(from, &path).unwrap();
    let loaded = checkpoint.load(to, &path).unwrap();
    assert_eq!((loaded.missing, loaded.extra), (vec![], vec![]));
    assert_eq!(bits(from), bits(to));
    assert_eq!(folder.names(), ["model.safetensors"]);
}

/// The message of a load that must be refused, without the path; the model must be as it was.
fn refusal(checkpoint: &Checkpoint, module: &mut impl Module, path: &Path) -> String {
    let before = bits(module);
    let error = match checkpoint.load(module, path) {
        Ok(_) => panic!("{} was loaded", path.display()),
        Err(error) => error,
    };
    assert!(error.is_file(), "{error}");
    assert_eq!(before, bits(module), "changed by: {error}");
    message(&error, path)
}

/// An error's text without the path, which must come first, and in the house's style.
fn message(error: &shapeproof::Error, path: &Path) -> String {
    let text = error.to_string();
    let prefix = format!("{}: ", path.display());
    let message = text.strip_prefix(&prefix).unwrap_or_else(|| panic!("no {prefix:?} in {text:?}"));
    assert!(!message.starts_with(char::is_uppercase), "upper case: {message}");
    assert!(!message.ends_with('.'), "full stop: {message}");
    message.to_owned()
}

#[track_caller]
fn assert_says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message:?}");
    }
}
