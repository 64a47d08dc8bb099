//! How parts of a report serialise that are not plain structures.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A list of named values as an object, in the order of the list.
pub fn map<S: Serializer, K: Serialize, V: Serialize>(
    entries: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (name, value) in entries {
        map.serialize_entry(name, value)?;
    }
    map.end()
}
