//! The SQL server: connections of clients, over TCP and Unix sockets, a thread each.

#![forbid(unsafe_code)]
// A server is at the edge: it uses sockets, threads and clocks of the standard library.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

// Catalogue of the files:
//
// - `arguments` (the command line), `policy` (rules for connections), `server` (listeners, threads,
//   the end), `metrics` (figures over HTTP), `timers` (bounds of statements).
// - `registry` (connections that there are), `stream` (a connection of either kind, with TLS).
// - `connection` (the first messages), `authentication` (passwords), `conversation` (messages and
//   answers), `limits` (times that a session allows), `results` (rows as messages).

pub mod arguments;
mod authentication;
mod connection;
mod conversation;
mod limits;
mod metrics;
mod policy;
mod registry;
mod results;
pub mod server;
mod stream;
mod timers;

#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod tests;
