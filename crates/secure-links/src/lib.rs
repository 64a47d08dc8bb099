//! Links between processes: handshake, refusals, and TLS.
//!
//! # Protocol
//!
//! A process [binds](Listener::bind) an endpoint, and others [connect] to it. The connecting side
//! sends a hello: the instances and workers of both ends, the version of the messages, a
//! fingerprint of the deployment, the transport, and limits of messages. The listening side checks
//! the hello and answers with a welcome of the same form, or with a refusal and its reason in one
//! line. Each side reports a refusal as an error. After the welcome both sides have an
//! [`End`](platform::link::End), which is used like an end of a link within a process:
//!
//! - `shm`: a ring in shared memory for each direction, on its receiver's memory node. The memory
//!   and the bells of the workers are passed through the Unix socket of the handshake. The socket
//!   stays open, and its end reports that the peer is gone;
//! - `uds`: the socket of the handshake itself, with the bells in shared memory beside it: a busy
//!   worker sees without a system call that no message has arrived;
//! - `tcp`: the same over a network. With [`Credentials`] the connection uses TLS 1.3.
//!
//! # Protection
//!
//! - With credentials both sides of a `tcp` connection prove by certificates which instances they
//!   are. No third party can read or change their messages, and a connection that is cut is
//!   distinguished from one that was closed.
//! - Unauthenticated connections have bounded costs: each guest is handled on a thread of its own,
//!   for at most a second and as many bytes as a hello has, with [`GUESTS_MAX`] guests at a time
//!   ([`Reception`]). A peer that was evicted, or whose partner was late, connects again until its
//!   patience ends.
//! - Length and checksum of each message are checked before it is delivered
//!   ([`platform::link::frame`]); a wrong one closes the connection. In shared memory length and
//!   number are checked, but no checksum (`docs/decisions/0024-no-checksum-in-shared-memory.md`).
//! - Local peers have to belong to the same user.
//!
//! Without credentials `tcp` has no authentication and no encryption. Local processes of the same
//! user are trusted.
//!
//! # Lost peers
//!
//! `uds` and `tcp` detect the end of a process at once, `shm` within a tenth of a second. If a
//! machine fails silently, `tcp` gives up when sent data is not acknowledged for 0.7 s, or after
//! two seconds without traffic (the granularity of the kernel's probes is a second). A peer that
//! receives no messages for 0.7 s while more of them wait than the network holds therefore also
//! counts as lost.
//!
//! # Files
//!
//! - `handshake`, `hello`: binding, connecting, and the messages of the handshake; `endpoint`,
//!   `peer`: addresses and identities;
//! - `socket`, `secured`: plain and TLS sockets; `bytes`: byte connections that are no links;
//! - `credentials`, `validity`: certificates and their expiry;
//! - `reception`: connections that are not yet authenticated; `error`.

#![forbid(unsafe_code)]
// Sockets, certificates and threads are the machine's.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod bytes;
mod credentials;
#[cfg(all(test, not(miri)))]
mod damage;
mod endpoint;
mod error;
mod handshake;
mod hello;
mod peer;
mod reception;
mod secured;
mod socket;
mod validity;

pub use bytes::Bytes;
pub use credentials::{AUTHORITY_FILE, Credentials, CredentialsError, Trust, credential_files};
pub use endpoint::Endpoint;
pub use error::{Fault, PeerError};
pub use handshake::{AdmitPeer, Connection, Doorbell, Identity, Listener, connect, connect_trusting};
pub use hello::Hello;
pub use peer::Peer;
pub use reception::{GUESTS_MAX, Reception};
pub use validity::{Day, Validity};
