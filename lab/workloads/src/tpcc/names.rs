//! Names of choices on the command line.

/// A name that no choice of TPC-C has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given}: expected one of {accepted}")]
pub struct UnknownName {
    /// What was given.
    pub given: String,
    /// The accepted names.
    pub accepted: String,
}

/// The value of this name.
pub(super) fn named<V: Copy>(given: &str, all: &[V], name: fn(V) -> &'static str) -> Result<V, UnknownName> {
    all.iter().copied().find(|value| name(*value) == given).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|value| name(*value)).collect();
        UnknownName { given: given.to_string(), accepted: names.join(", ") }
    })
}
