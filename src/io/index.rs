//! The index of a model in several files.

use super::header::{IS_POINTER, LONGEST, POINTER};
use super::table::{Table, Value};
use super::{quoted, unreadable};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Each tensor's key, with the name of the file that has it. The message of a refusal lacks the path.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, String> {
    let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.starts_with(POINTER) {
        return Err(IS_POINTER.into());
    }
    if text.len() as u64 > LONGEST {
        return Err(format!("expected an index of at most {LONGEST} bytes, found a longer one"));
    }
    let Table::<Table<String>>(index) = serde_json::from_slice(&text)
        .map_err(|error| format!("not an index of shards: {error}"))?;
    let (_, Table(map)) =
        index.into_iter().next().ok_or("no \"weight_map\": not an index of shards")?;
    for (key, shard) in &map {
        // A name alone: a path could lead anywhere. No file system has longer ones.
        let plain = Path::new(shard).file_name().is_some_and(|plain| plain == shard.as_str());
        if !plain || shard.len() > 255 {
            let (key, shard) = (quoted(key), quoted(shard));
            return Err(format!(
                "key {key}: expected the name of a file beside the index, found {shard}"
            ));
        }
    }
    Ok(map)
}

impl Value for Table<String> {
    const TABLE: &'static str = "an object with a \"weight_map\"";
    fn is_under(name: &str) -> bool {
        name == "weight_map"
    }
}

/// The name of a file.
impl Value for String {
    const TABLE: &'static str = "an object of files' names by key";
    fn is_under(_: &str) -> bool {
        true
    }
}
