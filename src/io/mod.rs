//! Files: safetensors, whole or in shards, to and from a model's parameters.

mod file;
mod header;
mod load;
mod save;
mod source;

pub use file::TensorFile;
pub use load::{Checkpoint, Loaded};
pub use save::save_tensors;
pub use source::{Source, WeightLayout};
