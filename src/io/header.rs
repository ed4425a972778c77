//! The header of a safetensors file, read without trusting it.

use super::table::{Table, Value};
use super::{quoted, unreadable};
use safetensors::tensor::TensorInfo;
use std::fs::File;
use std::io::Read;

/// No header is longer than this: the format's own limit.
pub(super) const LONGEST: u64 = 100_000_000;

/// How the text begins that Git LFS leaves in the place of a file that was not fetched.
pub(super) const POINTER: &[u8] = b"version https://git-lfs";

/// What is said about such a text.
pub(super) const IS_POINTER: &str =
    "a text pointer stands in the place of the data (Git LFS); fetch the file itself";

/// The tensors of a header, and where the data begins.
pub(super) type Header = (Vec<(String, TensorInfo)>, u64);

/// Reads and checks the header: the data of the tensors follow one another without gaps and end with
/// the file. The message of a refusal lacks the path.
pub(super) fn read(file: &mut File) -> Result<Header, String> {
    let facts = file.metadata().map_err(unreadable)?;
    if facts.is_dir() {
        return Err("expected a safetensors file, found a directory".into());
    }
    let length = facts.len();
    if length < 8 {
        return Err(format!(
            "not a safetensors file: expected at least the 8 bytes of the header's length, found {length}"
        ));
    }
    let mut first = [0; 8];
    file.read_exact(&mut first).map_err(unreadable)?;
    if POINTER.starts_with(&first) {
        return Err(IS_POINTER.into());
    }
    let header = u64::from_le_bytes(first);
    let longest = LONGEST.min(length - 8);
    if header > longest {
        return Err(format!(
            "not a safetensors file, or a truncated one: expected a header of at most {longest} bytes in a file of {length}, found one of {header}"
        ));
    }
    let mut text = vec![0; usize::try_from(header).map_err(|error| error.to_string())?];
    file.read_exact(&mut text).map_err(unreadable)?;
    let Table::<TensorInfo>(mut entries) = serde_json::from_slice(&text)
        .map_err(|error| format!("the header is no table of tensors: {error}"))?;
    entries.sort_by_key(|(_, info)| info.data_offsets);
    let data = check(&entries)?;
    let begin = 8 + header;
    if (data as u64).checked_add(begin) != Some(length) {
        let found = length - begin;
        return Err(format!("expected {data} bytes of data behind the header, found {found}"));
    }
    Ok((entries, begin))
}

/// Whether each tensor, in the order of the data, begins where the last one ended and is as long as
/// its sizes say; the number of bytes of all.
fn check(entries: &[(String, TensorInfo)]) -> Result<usize, String> {
    let mut end = 0;
    for (name, info) in entries {
        let refused = |message: String| Err(format!("key {}: {message}", quoted(name)));
        let (from, to) = info.data_offsets;
        if from != end {
            return refused(format!(
                "expected its data to begin at byte {end}, where the last tensor's end, found {from}"
            ));
        }
        let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |n, &size| n.checked_mul(size));
        let Some(bytes) = bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8) else {
            let (dtype, shape) = (info.dtype, short(&info.shape));
            return refused(format!("{dtype} of sizes {shape} are no whole number of bytes"));
        };
        if from.checked_add(bytes) != Some(to) {
            let (dtype, shape) = (info.dtype, short(&info.shape));
            return refused(format!(
                "expected {bytes} bytes for {dtype} of sizes {shape}, found offsets {from} to {to}"
            ));
        }
        end = to;
    }
    Ok(end)
}

/// The sizes, the first of them where they are too many to print.
fn short(shape: &[usize]) -> String {
    match shape {
        [first @ .., _] if first.len() >= 16 => {
            format!("{:?} and {} more", &shape[..16], shape.len() - 16)
        }
        all => format!("{all:?}"),
    }
}

impl Value for TensorInfo {
    const TABLE: &'static str = "an object of tensors by name";
    fn is_under(name: &str) -> bool {
        name != "__metadata__"
    }
}
