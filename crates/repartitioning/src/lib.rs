//! Adaptive repartitioning: which worker should own which keys, by a cost model, searches for a
//! better map of partitions, and a controller that decides when to change the map.
//!
//! Source: Porobic, Liarou, Tözün, Ailamaki, "ATraPos: Adaptive Transaction Processing on Hardware
//! Islands", ICDE 2014, section V. The crate computes decisions from values: it has no clock, no
//! threads and no shared memory. The workers of an executor count their actions ([`Arrays`]). The
//! executor gathers the counts ([`Load`]), passes them to the [`Controller`], and applies the
//! [`Change`]s that the controller returns. Guide: docs/adaptation.md.
//!
//! Files:
//!
//! - `map`, `difference`: maps of partitions, and the changes between two maps;
//! - `grid`, `load`, `transaction_origins`, `load_conversion`: sub-partitions, and measured loads;
//! - `cores`, `model`: the machine, and the cost model;
//! - `partitioning`, `placement`: the two searches of the paper; `draft`, `refining`: assignments
//!   and local search; `search`: the whole search;
//! - `settings`, `balance`, `controller`: the decision to change the map;
//! - `story`, `words`: the record of a run, and its texts.

#![forbid(unsafe_code)]

mod balance;
mod controller;
mod cores;
mod difference;
mod draft;
mod grid;
mod load;
mod load_conversion;
mod map;
mod model;
mod partitioning;
mod placement;
mod refining;
mod search;
mod settings;
mod story;
mod transaction_origins;
mod words;

pub use balance::{Balance, Spent};
pub use controller::{Action, Controller, ControllerState, Event, Illegal};
pub use cores::{Core, Cores, CoresError};
pub use difference::difference;
pub use grid::{DIVISIONS, Grid, SubPartition};
pub use load::{
    ASK_NANOS, Arrays, Load, LoadError, MEMBERS_MAX, SYNCHRONIZATION_SETS_MAX, SynchronizationPoint,
};
pub use map::{BorderAction, Change, MapError, Partition, PartitionMap, Range, Table, TablePartitions};
pub use model::{Figures, Model};
pub use search::{Proposal, ProposalOrigin, Search, SearchError, search};
pub use settings::Settings;
pub use story::{Repartitioning, Story, StoryNote, StoryPartition, View};
pub use transaction_origins::{Drawn, Draws};
pub use words::counted;
