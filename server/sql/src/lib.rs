//! SQL over the described tables of the library: statements are parsed, bound to the schema,
//! planned and executed row by row. Nothing here knows of connections.
//!
//! A statement outside of a block is a transaction of the engine that is tried again after
//! conflicts; a block is a transaction object whose locks are waited for (decision 0121).

#![forbid(unsafe_code)]
// A server is at the edge: it uses the threads, clocks and maps of the standard library.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

// Catalogue of the files:
//
// - `parse` (bounds, the parser), `bind` (names and types: statements become plans), `plan`
//   (operators), `expr` (bound expressions).
// - `exec` (operators run), `modify` (rows change), `functions`, `value` (order, arithmetic,
//   conversion), `text` and `binary` (forms of values), `types`.
// - `schema` (tables as SQL sees them), `catalog` (tables about tables), `ddl` (changes of tables).
// - `roles` (roles and privileges), `verifier` (what is kept of passwords).
// - `engine` and `shared_schema` (what sessions share), `session` (transactions, statements,
//   portals), `context` (what expressions see of a session), `error`.

pub mod binary;
pub mod bind;
pub mod catalog;
pub mod context;
pub mod copy;
pub mod ddl;
pub mod engine;
pub mod error;
pub mod exec;
pub mod expr;
pub mod functions;
pub mod modify;
pub mod parse;
pub mod plan;
pub mod roles;
pub mod schema;
pub mod session;
pub mod shared_schema;
pub mod text;
pub mod types;
pub mod value;
pub mod verifier;

#[cfg(test)]
mod tests;

pub use engine::{Engine, EngineOptions};
pub use error::{Result, SqlError};
pub use session::Session;
