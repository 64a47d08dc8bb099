//! The engine compiled for hardware, once for each scheme, and over pages: databases as objects.
//! Without the feature `all-schemes` the basic schemes are compiled alone ([`is_compiled`]).
//!
//! No function here is generic, so users of this crate do not compile the engine again.

#![forbid(unsafe_code)]

use std::path::Path;

use boundary::{Database, DurableOptions, OpenError, Progress, Recovered, SchemaBuilder};
use concurrency::{InstanceOptions, SchemeName};
use engine::durable::content::{self, Checked, ContentError};
use engine::instances;
use pages::{Examined, PagedDatabase, PagedError, PagedOptions};
use platform::{Hardware, Node, OutOfMemory};
use redo_log::{LogError, Survey};

const ALL: bool = cfg!(feature = "all-schemes");

/// True if the engine is compiled for this scheme.
pub const fn is_compiled(scheme: SchemeName) -> bool {
    ALL || scheme.is_basic()
}

/// Makes the declared tables under this scheme: see [`engine::MemoryDatabase::create`].
///
/// # Errors
/// There is not enough memory.
///
/// # Panics
/// The scheme is not compiled in.
pub fn create(
    scheme: SchemeName,
    c: <Hardware as platform::Platform>::Core,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<Database<Hardware>, OutOfMemory> {
    instances::create::<Hardware, ALL>(scheme, c, options, schema, node_of)
}

/// Opens a durable database under this scheme: see [`engine::MemoryDatabase::open_with_progress`].
///
/// # Errors
/// [`OpenError`]; the directory is left as it was.
///
/// # Panics
/// The scheme is not compiled in.
pub fn open(
    scheme: SchemeName,
    c: <Hardware as platform::Platform>::Core,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
    durable: &DurableOptions,
    listener: Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<Hardware>, Recovered), OpenError> {
    instances::open::<Hardware, ALL>(scheme, c, options, schema, node_of, durable, listener)
}

/// Opens or makes a database in pages: see [`PagedDatabase::open`].
///
/// # Errors
/// [`PagedError`].
pub fn open_paged(
    c: <Hardware as platform::Platform>::Core,
    options: &PagedOptions,
    schema: SchemaBuilder,
    listener: Option<&mut dyn FnMut(Progress)>,
) -> Result<(Database<Hardware>, Recovered), PagedError> {
    let (database, recovered) = PagedDatabase::open(c, options, schema, listener)?;
    Ok((Database::of(Box::new(database)), recovered))
}

/// Reads a directory with rows in pages: see [`pages::examine`].
///
/// # Errors
/// [`PagedError`].
pub fn examine_paged(c: <Hardware as platform::Platform>::Core, path: &Path) -> Result<Examined, PagedError> {
    pages::examine::<Hardware>(c, path)
}

/// Reads a directory of a database in memory, and verifies everything: see [`content::check`].
///
/// # Errors
/// [`ContentError`].
pub fn check(
    c: <Hardware as platform::Platform>::Core,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Checked, ContentError> {
    content::check::<Hardware>(c, path, progress)
}

/// Reads the log of a database in memory: see [`redo_log::survey`].
///
/// # Errors
/// [`LogError`].
pub fn survey(c: <Hardware as platform::Platform>::Core, path: &Path) -> Result<Survey, LogError> {
    redo_log::survey::<Hardware>(c, path)
}
