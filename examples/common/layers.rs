//! The number of layers that a configuration names: the one size that is no type.

use serde_json::Value;

/// More than models have. A damaged file may name more than there is memory for.
const MOST: usize = 1000;

/// What stands under this key. The `Err` is one line.
pub(crate) fn layers(config: &Value, key: &str) -> Result<usize, String> {
    let layers = config[key].as_u64().and_then(|it| usize::try_from(it).ok());
    let refusal = || format!("`{key}` is {}, expected a number from 0 to {MOST}", config[key]);
    layers.filter(|&it| it <= MOST).ok_or_else(refusal)
}
