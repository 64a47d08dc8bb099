//! How parts of a report serialise that are not plain structures.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Check;

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

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Check::Ok => serializer.serialize_str("ok"),
            Check::NotApplicable(reason) => serializer.collect_str(&format_args!("n/a: {reason}")),
            Check::Violated(violation) => serializer.serialize_str(violation),
        }
    }
}
