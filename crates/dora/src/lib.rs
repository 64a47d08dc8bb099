//! Data-oriented execution: workers own partitions of the data, and actions go to the owners of
//! what they touch.
//!
//! After DORA (Pandis, Johnson, Hardavellas, Ailamaki, "Data-oriented transaction execution", PVLDB
//! 2010), PLP (Pandis, Tözün, Johnson, Ailamaki, "PLP: page latch-free shared-everything OLTP",
//! PVLDB 2011) and ATraPos (Porobic, Liarou, Tözün, Ailamaki, "ATraPos: adaptive transaction
//! processing on hardware islands", ICDE 2014). Decision 0041 has what is built, and
//! docs/atrapos.md what differs.
//!
//! - One database, and any number of owners. The [`Map`] has the owner of each partition of each
//!   table.
//! - The worker that draws a transaction coordinates it. The actions of a phase go to the owners of
//!   the partitions that they touch; those of the coordinator's own partitions run in place. The
//!   end of a phase is a synchronization point: all of its actions have been answered.
//! - What one owner does for a transaction is a branch ([`boundary::Branches`]). Branches
//!   are kept apart by locks of routes, in a table that only the owner reads (`locks`). A
//!   transaction of one owner alone runs from its beginning to its end without a message and
//!   without a lock: it only checks if another transaction has one.
//! - What all workers share is in [`Sharing`]'s sections: one, or one a socket.
//!
//! ```text
//! phases, serving            what a worker does for its own transactions, and for others'
//! moving, sampling           how it changes the map, and what it counts (counting)
//! worker                     a worker: its transactions from their beginnings to their ends
//!    post                    the messages that a worker sends and receives
//!       inbox                a ring of words for each worker, which all others fill
//!       messages             messages between workers, as bytes
//!    executor                a worker's session and procedures as one object
//!    owned                   what a worker has open and waiting, by coordinator
//!       locks                locked routes, and requests that wait
//!    rearranging             how the map changes while transactions run
//!    shared                  state that all workers share
//!       central              which transactions are active, and the lock of the map
//!          active_list       a list of active transactions behind one latch
//!       map                  partitions and their owners
//! ```

#![forbid(unsafe_code)]

mod active_list;
mod central;
mod counting;
mod executor;
mod inbox;
mod locks;
mod map;
mod messages;
mod moving;
mod owned;
mod phases;
mod post;
mod rearranging;
mod sampling;
mod serving;
mod shared;
mod worker;

pub use central::Sharing;
pub use executor::{
    Acting, ActionExecutor, Actions, Copied, Done, Dynamic, SelectedActions, Typed, execute_selected,
};
pub use map::{Map, MapError};
pub use moving::Borders;
pub use shared::{Shared, Site};
pub use worker::{Counts, NO_BRANCHES, OwnerWorker};
