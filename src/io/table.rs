//! A JSON object, read entry by entry.

use super::quoted;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt::{self, Formatter};
use std::marker::PhantomData;

/// The entries of an object, in its order; a name given twice is refused, where a map would keep the
/// last.
pub(super) struct Table<V>(pub(super) Vec<(String, V)>);

/// What a table holds.
pub(super) trait Value: for<'de> Deserialize<'de> {
    /// What an object of these is.
    const TABLE: &'static str;
    /// Whether the entry of this name is one; others are passed over.
    fn is_under(name: &str) -> bool;
}

impl<'de, V: Value> Deserialize<'de> for Table<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<V>(PhantomData<V>);

impl<'de, V: Value> Visitor<'de> for Entries<V> {
    type Value = Table<V>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(V::TABLE)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Table<V>, M::Error> {
        let (mut entries, mut names) = (Vec::new(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if names.contains(&name) {
                return Err(M::Error::custom(format!("the name {} is given twice", quoted(&name))));
            }
            names.insert(name.clone());
            if !V::is_under(&name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map
                .next_value()
                .map_err(|error| M::Error::custom(format!("key {}: {error}", quoted(&name))))?;
            entries.push((name, value));
        }
        Ok(Table(entries))
    }
}
