//! Files: safetensors, whole or in shards, to and from a model's parameters or a training run.

mod compare;
mod decode;
mod file;
mod header;
mod index;
mod load;
mod place;
mod save;
mod source;
mod table;
mod training;

pub use compare::{ComparedStep, Comparison, Difference, Outcome, Tolerance};
pub use file::TensorFile;
pub use load::{Checkpoint, Loaded};
pub use save::save_tensors;
pub use source::{Source, WeightLayout};
pub use training::{load_training, save_training};

/// Why a file could not be read.
fn unreadable(error: std::io::Error) -> String {
    format!("cannot be read: {error}")
}

/// A key in quotes; of one that no person wrote, the beginning.
fn quoted(key: &str) -> String {
    const LONGEST: usize = 200;
    match key.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &key[..end], key.len()),
        None => format!("{key:?}"),
    }
}
