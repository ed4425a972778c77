//! Reads the reference values of `tests/fixtures`, whose README says what they are
//! and how they were made. Everything here is untyped on purpose: it must not need
//! what it is to test.
//!
//! A reader of test data panics where a file is not as expected, and says which.

mod case;
mod compare;
mod config;
mod report;
mod tensors;
mod tests;

use std::path::{Path, PathBuf};

pub(crate) use self::{
    case::{Case, Family},
    compare::{assert_close, close},
    config::Config,
    report::{Report, Run, skip},
    tensors::Tensors,
};

/// The folder that is read: `SHAPEPROOF_FIXTURES` where it is set, else the
/// repository's own.
pub(crate) fn fixtures_dir() -> PathBuf {
    std::env::var_os("SHAPEPROOF_FIXTURES").map_or_else(shipped_dir, PathBuf::from)
}

/// The repository's own folder, whatever the environment says.
pub(crate) fn shipped_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// `FOLDER/reference.json` and the tensors of `FOLDER/reference.safetensors`, as
/// `rxnmapper`, `minilm` and `glassllm` have them.
pub(crate) fn reference(folder: &str) -> (Config, Tensors) {
    reference_in(&fixtures_dir(), folder)
}

pub(crate) fn reference_in(root: &Path, folder: &str) -> (Config, Tensors) {
    let folder = root.join(folder);
    let json = read_json(&folder.join("reference.json"));
    (Config::new(json), Tensors::read(&folder.join("reference.safetensors")))
}

pub(crate) fn read_json(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
