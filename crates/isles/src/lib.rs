//! Isles, embedded.
#![forbid(unsafe_code)]

mod database;
mod error;
mod options;
mod range;
mod scan;
mod session;
mod table;
mod transaction;

pub use database::{Builder, Database, MEMORY_LIMIT_DEFAULT, SESSIONS_DEFAULT, SESSIONS_MAX, Scheme};
pub use engine::key::Key;
pub use engine::row::{Field, IndexId, Row, Value};
pub use engine::{Stats, Text};
pub use error::{Conflict, Error, Result};
pub use options::{ATTEMPTS_DEFAULT, CancelToken, DEADLINE_DEFAULT, TransactionOptions};
pub use range::{KeyRange, NormalizedRange, Prefix, Prefixes, prefix, prefixes};
pub use row_derive::{EmbeddedRow as Row, EmbeddedValue as Value};
pub use scan::Scan;
pub use session::{Session, SessionWith};
pub use table::{Index, Lookup, Table, TableOptions};
pub use transaction::Transaction;

/// For the code that the derives generate: no part of the interface.
#[doc(hidden)]
pub use ::engine;
