//! Messages of the PostgreSQL protocol, version 3: bytes to values and back. Nothing here reads or
//! writes a connection, and no length that a client sends is believed before it is checked.
//!
//! Source: PostgreSQL 15 documentation, chapter 55 (Frontend/Backend Protocol).

#![forbid(unsafe_code)]

// Catalogue of the files:
//
// - `frontend`: messages of clients; `startup`: the first message of a connection.
// - `scram`: messages by which clients prove that they know passwords.
// - `backend`: messages to clients; `reader`: bytes that are read from their beginning.

mod backend;
mod frontend;
mod reader;
pub mod scram;
mod startup;

pub use backend::{ErrorFields, Field, Output, Status};
pub use frontend::{Frontend, MESSAGE_BYTES_MAX, Target};
pub use startup::{STARTUP_BYTES_MAX, Startup};

/// A message that does not follow the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(pub String);

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for ProtocolError {}
