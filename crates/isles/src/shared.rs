//! What all handles of a database share.
// The number of sessions is no shared word of the engine.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::AtomicU64;

use cc::SchemeName;
use engine::TableDescription;
use engine::dynamic::AnyDatabase;
use platform::Hardware;

/// What all handles of a database share.
pub(crate) struct Shared {
    pub(crate) inner: Box<dyn AnyDatabase<Hardware>>,
    /// What its tables are, by their numbers.
    pub(crate) tables: Vec<TableDescription>,
    pub(crate) id: u64,
    pub(crate) scheme: SchemeName,
    /// Sessions begun so far: seeds of their backoff times.
    pub(crate) sessions: AtomicU64,
}
