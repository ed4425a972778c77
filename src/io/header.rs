//! The header of a safetensors file, read without trusting it.

use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt::{self, Formatter};
use std::fs::File;
use std::io::Read;

/// No header is longer than this: the format's own limit.
const LONGEST: u64 = 100_000_000;

/// Reads and checks the header; also returns where the data begins. The message of a refusal lacks
/// the path.
pub(super) fn read(file: &mut File) -> Result<(Metadata, u64), String> {
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length < 8 {
        return Err(format!(
            "not a safetensors file: {length} bytes, the header's length alone takes 8"
        ));
    }
    let mut first = [0; 8];
    file.read_exact(&mut first).map_err(|error| error.to_string())?;
    if &first == b"version " {
        return Err(
            "a text pointer stands in the place of the data (Git LFS); fetch the file itself"
                .into(),
        );
    }
    let header = u64::from_le_bytes(first);
    if header > LONGEST.min(length - 8) {
        return Err(format!(
            "not a safetensors file, or a truncated one: a header of {header} bytes in a file of {length}"
        ));
    }
    let mut text = vec![0; usize::try_from(header).map_err(|error| error.to_string())?];
    file.read_exact(&mut text).map_err(|error| error.to_string())?;
    let Entries(mut entries) = serde_json::from_slice(&text)
        .map_err(|error| format!("the header is no table of tensors: {error}"))?;
    entries.sort_by_key(|(_, info)| info.data_offsets);
    let metadata = Metadata::new(None, entries)
        .map_err(|error| format!("the header contradicts itself: {error}"))?;
    let expected = (8 + header).checked_add(metadata.data_len() as u64);
    if expected != Some(length) {
        let data = metadata.data_len();
        return Err(format!(
            "the header (8 + {header} bytes) speaks of {data} bytes of data, the file has {length} in all"
        ));
    }
    Ok((metadata, 8 + header))
}

/// The tensors of a header; a name given twice is refused, where a map would keep the last.
struct Entries(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Entries;
            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors by name")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let (mut entries, mut names) = (Vec::new(), HashSet::new());
                while let Some(name) = map.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(M::Error::custom(format!("the name {name:?} is given twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Names)
    }
}
