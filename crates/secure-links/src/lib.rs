//! Links between processes.
//!
//! A process [binds](Listener::bind) an endpoint, others [connect] to it. Both say hello: which
//! instance and worker they are and whom they look for, the version of their messages, the
//! deployment that they belong to, and how long and how many messages they take. Whoever is not the
//! right one is refused with a reason of one line, at both ends. Then both have an
//! [`End`](platform::link::End), which is used like one within a process:
//!
//! - `shm`: a ring in shared memory for each direction, on its receiver's node. The memory, and the
//!   bells at which the workers wait, are handed over through the Unix socket of the hello, which
//!   stays open: its end is the news that the peer is gone;
//! - `uds`: the socket of the hello itself, with the bells in shared memory beside it: a worker at
//!   work sees without a system call that nothing has come;
//! - `tcp`: the same, over a network; secured, if the process has [`Credentials`]: both sides prove
//!   which instances they are, nobody else reads or changes what they say, and a connection that is
//!   cut is told from one that was closed.
//!
//! Strangers cost little: whoever connects is heard on a thread of its own, [`GUESTS_MAX`] at a
//! time, for a second in all and for as many bytes as a hello has ([`Reception`]). A process that
//! was sent away because too many came, or whose partner was late, connects again until its
//! patience ends.
//!
//! What comes is not believed: length and checksum of each message are checked before it is handed
//! on ([`platform::link::frame`]), and a wrong one closes the connection. In shared memory length
//! and number are, and no checksum (`docs/decisions/0024-no-checksum-in-shared-memory.md`).
//!
//! A process that ends is noticed at once by `uds` and `tcp`, within a tenth of a second by `shm`.
//! Of a machine that falls silent nobody tells: `tcp` gives up when messages have not been taken
//! for 0.7 s, or when nothing was to be sent and nothing came for two (the granularity of the
//! kernel's probes is a second). So a peer that takes no messages for 0.7 s although more of them
//! wait than the network holds counts as gone, too.
//!
//! Deviations: peers on this machine have to be of the same user; without credentials nobody proves
//! over `tcp` who they are.

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
pub use handshake::{Connection, Door, Doorbell, Identity, Listener, connect, connect_trusting};
pub use hello::Hello;
pub use peer::Peer;
pub use reception::{GUESTS_MAX, Reception};
pub use validity::{Day, Validity};
