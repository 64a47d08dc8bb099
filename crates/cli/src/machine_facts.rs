//! What a configuration needs to know of a machine.

/// The name of the machine this process runs on.
pub const NATIVE: &str = "native";

/// What the configuration needs to know of the machine that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// `native`, or the name of a simulated machine.
    pub name: String,
    /// Usable hardware threads when at most 1, 2, ... of each physical core are used; never empty.
    pub threads_by_smt: Vec<usize>,
    /// Memory in bytes of the machine that holds the rows: this one, also for a simulated machine; `None` if unknown.
    pub host_memory_bytes: Option<u64>,
}
