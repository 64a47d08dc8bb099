//! The engine compiled for the virtual machine, once for each scheme, and over pages: databases as
//! objects.
//!
//! No function here is generic, so users of this crate do not compile the engine again.

#![forbid(unsafe_code)]

use boundary::{Database, DurableOptions, OpenError, Progress, Recovered, SchemaBuilder};
use concurrency::{InstanceOptions, SchemeName};
use engine::instances;
use pages::{PagedDatabase, PagedError, PagedOptions};
use platform::{Node, OutOfMemory};
use sim::{VirtualCore, VirtualMachine};

/// Makes the declared tables under this scheme: see [`engine::MemoryDatabase::create`].
///
/// # Errors
/// There is not enough memory.
pub fn create(
    scheme: SchemeName,
    c: VirtualCore,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<Database<VirtualMachine>, OutOfMemory> {
    instances::create::<VirtualMachine, true>(scheme, c, options, schema, node_of)
}

/// Opens a durable database under this scheme: see [`engine::MemoryDatabase::open_with_progress`].
///
/// # Errors
/// [`OpenError`]; the directory is left as it was.
pub fn open(
    scheme: SchemeName,
    c: VirtualCore,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
    durable: &DurableOptions,
    listener: Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<VirtualMachine>, Recovered), OpenError> {
    instances::open::<VirtualMachine, true>(scheme, c, options, schema, node_of, durable, listener)
}

/// Opens or makes a database in pages: see [`PagedDatabase::open`].
///
/// # Errors
/// [`PagedError`].
pub fn open_paged(
    c: VirtualCore,
    options: &PagedOptions,
    schema: SchemaBuilder,
    listener: Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<VirtualMachine>, Recovered), PagedError> {
    let (database, recovered) = PagedDatabase::open(c, options, schema, listener)?;
    Ok((Database::of(Box::new(database)), recovered))
}
