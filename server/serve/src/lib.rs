//! The SQL server: connections of clients, over TCP and Unix sockets, a thread each.

#![forbid(unsafe_code)]
// A server is at the edge: it uses sockets, threads and clocks of the standard library.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

// Catalogue of the files:
//
// - `arguments` (the command line), `server` (listeners, threads, the end), `stream` (a connection
//   of either kind).
// - `connection` (the first messages), `conversation` (messages and answers), `results` (rows as
//   messages).

pub mod arguments;
mod connection;
mod conversation;
mod results;
pub mod server;
mod stream;

#[cfg(test)]
mod tests;
