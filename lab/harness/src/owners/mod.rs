//! Owners of partitions: their map follows the workload.

pub(crate) mod adaptation;
pub(crate) mod adapting;
pub(crate) mod monitor_events;
pub(crate) mod processors;
pub(crate) mod pulse;
pub(crate) mod shifting;
