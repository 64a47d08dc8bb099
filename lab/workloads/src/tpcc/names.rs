//! Names of option values on the command line.

/// The error of a name that no option of TPC-C has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given}: expected one of {accepted}")]
pub struct UnknownName {
    /// The name that was given.
    pub given: String,
    /// The accepted names.
    pub accepted: String,
}

/// Finds the value with this name.
pub(super) fn named<V: Copy>(given: &str, all: &[V], name: fn(V) -> &'static str) -> Result<V, UnknownName> {
    all.iter().copied().find(|value| name(*value) == given).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|value| name(*value)).collect();
        UnknownName { given: given.to_string(), accepted: names.join(", ") }
    })
}
