//! The thinking part of adaptive partitioning: who owns which keys, what that costs, what would
//! cost less, and whether to change it now.
//!
//! Source: Porobic, Liarou, Tözün, Ailamaki, "ATraPos: Adaptive Transaction Processing on Hardware
//! Islands", ICDE 2014, section V. Values go in, decisions come out: there is no clock here, no
//! thread and no memory that others touch. An executor counts ([`Arrays`]), gathers ([`Load`]),
//! tells the [`Controller`], and makes the [`Change`]s that it is told. Guide: docs/adaptation.md.

#![forbid(unsafe_code)]

mod balance;
mod carry;
mod controller;
mod cores;
mod difference;
mod draft;
mod draws;
mod grid;
mod load;
mod map;
mod model;
mod partitioning;
mod placement;
mod refining;
mod search;
mod settings;
mod story;
mod words;

pub use balance::{Balance, Spent};
pub use controller::{Action, Controller, Event, Illegal, State};
pub use cores::{Core, Cores, CoresError};
pub use difference::difference;
pub use draws::{Drawn, Draws};
pub use grid::{DIVISIONS, Grid, SubPartition};
pub use load::{ASK_NANOS, Arrays, Load, LoadError, MEETINGS_MAX, MEMBERS_MAX, Meeting};
pub use map::{Change, MapError, Partition, PartitionMap, Range, Table, TablePartitions};
pub use model::{Figures, Model};
pub use search::{Proposal, Search, SearchError, Way, search};
pub use settings::{Rules, Settings};
pub use story::{Note, Piece, Repartitioning, Story, View};
pub use words::counted;
