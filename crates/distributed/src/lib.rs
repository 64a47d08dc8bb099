//! Several instances of the engine as one database.
//!
//! An instance is a database of its own, with its share of the data. A transaction that touches one
//! instance runs there like any other. A transaction that touches several runs in parts: the worker
//! that began it coordinates, sends every other instance its whole part in one message, and runs
//! its own part last, so that rows of its own are locked for no round trip.
//!
//! - [`protocol`]: two-phase commit as state machines, without links and rows;
//! - [`messages`]: messages between workers of different instances, and their form as bytes;
//! - [`map`]: which instance, and which of its workers, an action belongs to;
//! - [`peer`]: the way to one worker of another instance; [`mesh`]: all ways between instances of
//!   one process;
//! - [`flight`]: a transaction that its coordinator has begun and not finished, and a part that is
//!   prepared for another;
//! - [`directory`]: the directory of a durable deployment, and the owners of its data;
//! - [`doubt`]: what becomes of transactions that were under way when all instances went down;
//! - [`rejoining`], `gate`: what becomes of them when one instance went down, or a connection
//!   broke, and the others run on; `echoes` are messages that are received twice in tests;
//! - [`member`]: one worker, over any platform and any scheme; [`setting`]: its settings;
//!   `coordinating` is what it does for its own transactions, `serving` for those of others,
//!   `waiting` what waits to be durable.
//!
//! Order: all parts of a transaction are prepared, which locks all that they have read and written
//! under every scheme, at the moment at which its coordinator decides. So transactions over several
//! instances are in the order of their decisions, and transactions of one instance fit in between
//! if their scheme commits them in the order of real time. Snapshots of one instance do not: two of
//! them, in two instances, may see two transactions over both in different orders. So no worker
//! takes one where there are several instances.
//!
//! Deadlocks: parts that wait for others wait for a bounded time (`concurrency`), and then vote no.

#![forbid(unsafe_code)]

mod coordinating;
#[cfg(test)]
mod damage;
pub mod directory;
pub mod doubt;
mod echoes;
pub mod flight;
mod gate;
pub mod map;
pub mod member;
pub mod mesh;
pub mod messages;
mod ordering;
pub mod peer;
pub mod protocol;
pub mod rejoining;
mod serving;
pub mod setting;
mod waiting;

pub use directory::{DataOwners, DeploymentDirectory, DirectoryError};
pub use doubt::{DoubtError, Resolved, Undecided, Unfinished, resolve, resolve_apart};
pub use flight::End;
pub use gate::Gate;
pub use map::{HomeInstance, Map, MapError, WorkerName};
pub use member::Member;
pub use messages::{GlobalId, MessageError};
pub use rejoining::Adopted;
pub use setting::{Connection, Counts, Done, MemberError, Setting, wait_nanos_max};
