//! `isles import` and `isles export`: rows of a table as CSV and as JSON lines.
//!
//! - `values`: values as text, by the type of their column;
//! - `json`: JSON, and a reader that says where it stands;
//! - `csv`: records of fields;
//! - `opening`: the database, the table and the format that the user names;
//! - `import`, `export`: the commands.

mod csv;
mod export;
mod import;
mod json;
mod opening;
mod values;

pub use export::{ExportArguments, export};
pub use import::{ImportArguments, import};
pub(crate) use opening::{MEMORY_LIMIT, POOL_BYTES, open};
