//! The engines, each durable and serializable in the best way that its documentation offers.

mod binaries;
mod fjall;
mod heed;
mod isles;
mod postgres;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod rusqlite;
mod setup;

use std::path::Path;

use crate::engine::{Engine, Failure};

pub use binaries::{Binaries, NoPostgres};
pub use setup::Setup;

/// The engines, in the order of the table.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Isles, embedded.
    Isles,
    /// Isles, embedded, with rows in pages.
    IslesPages,
    /// fjall, which flushes in each commit.
    Fjall,
    /// fjall, with one flush for many commits, put together by the benchmark.
    FjallGroup,
    /// redb, which flushes in each commit.
    Redb,
    /// redb, with one flush for many commits, put together by the benchmark.
    RedbGroup,
    /// RocksDB.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// LMDB, through heed.
    Heed,
    /// SQLite, through rusqlite.
    Rusqlite,
    /// PostgreSQL over a Unix socket.
    Postgres,
}

impl Kind {
    /// All engines.
    pub const ALL: &[Kind] = &[
        Kind::Isles,
        Kind::IslesPages,
        Kind::Fjall,
        Kind::FjallGroup,
        Kind::Redb,
        Kind::RedbGroup,
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb,
        Kind::Heed,
        Kind::Rusqlite,
        Kind::Postgres,
    ];
}

impl std::fmt::Display for Kind {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.pad(match self {
            Kind::Isles => "isles",
            Kind::IslesPages => "isles-pages",
            Kind::Fjall => "fjall",
            Kind::FjallGroup => "fjall-group",
            Kind::Redb => "redb",
            Kind::RedbGroup => "redb-group",
            #[cfg(feature = "rocksdb")]
            Kind::Rocksdb => "rocksdb",
            Kind::Heed => "heed",
            Kind::Rusqlite => "rusqlite",
            Kind::Postgres => "postgres",
        })
    }
}

/// Opens the database in `directory`, which exists, and is empty the first time.
///
/// # Errors
/// An error of the engine.
pub fn open(kind: Kind, directory: &Path, setup: &Setup) -> Result<Box<dyn Engine>, Failure> {
    Ok(match kind {
        Kind::Isles => Box::new(isles::Isles::open(directory, setup, isles::Rows::InMemory)?),
        Kind::IslesPages => Box::new(isles::Isles::open(directory, setup, isles::Rows::InPages)?),
        Kind::Fjall => Box::new(fjall::Fjall::open(directory, setup, fjall::Flush::EachCommit)?),
        Kind::FjallGroup => Box::new(fjall::Fjall::open(directory, setup, fjall::Flush::Group)?),
        Kind::Redb => Box::new(redb::Redb::open(directory, setup, redb::Flush::EachCommit)?),
        Kind::RedbGroup => Box::new(redb::Redb::open(directory, setup, redb::Flush::Group)?),
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => Box::new(rocksdb::Rocksdb::open(directory, setup)?),
        Kind::Heed => Box::new(heed::Heed::open(directory, setup)?),
        Kind::Rusqlite => Box::new(rusqlite::Rusqlite::open(directory, setup)?),
        Kind::Postgres => Box::new(postgres::Postgres::open(directory, setup)?),
    })
}
