//! The result of a run, as values.

pub(crate) mod machine_use;
pub(crate) mod memory_figures;
pub(crate) mod partition_events;
pub(crate) mod values;
