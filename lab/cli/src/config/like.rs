//! Defaults of `--like`: with them a run does what another program does.
//!
//! Each flag can still be given, and counts then. What the other program does, where its source
//! says so, and what of it has no flag here stands in `docs/like-dbx1000.md` and
//! `docs/like-shore-mt.md`; a test holds the list of the former against its page.

use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, TimestampDraws};
use harness::{Durability, Partitioning, Retry};
use storage::Optimisation;
use workloads::tpcc::{HotRows, Stocks};

use crate::choices::{Like, Switch};

/// Defaults of the flags that differ from program to program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ways {
    /// `--durability`, on hardware.
    pub durability: Durability,
    /// `--row-lock`.
    pub row_lock: RowLock,
    /// `--retry`.
    pub retry: Retry,
    /// `--row-copies`.
    pub row_copies: RowCopies,
    /// `--commit-locks`.
    pub commit_locks: CommitLocks,
    /// `--deadlocks`, where the locks of rows are managers.
    pub deadlocks: Deadlocks,
    /// Which schemes draw timestamps with `--timestamp counter`.
    pub timestamp_draws: TimestampDraws,
    /// `--hot-rows`.
    pub hot_rows: HotRows,
    /// `--stocks`.
    pub stocks: Stocks,
    /// `--load`.
    pub load: Partitioning,
    /// `--index-inserts`, for mixes that look for no inserted rows.
    pub index_inserts: Switch,
    /// `--unvalidated-reads`.
    pub unvalidated_reads: Switch,
    /// `--without`.
    pub without: &'static [Optimisation],
}

/// The defaults of Isles.
const OWN: Ways = Ways {
    durability: Durability::Group,
    row_lock: RowLock::Word,
    retry: Retry::Exponential,
    row_copies: RowCopies::Fields,
    commit_locks: CommitLocks::Ordered,
    deadlocks: Deadlocks::Graph,
    timestamp_draws: TimestampDraws::Used,
    hot_rows: HotRows::Late,
    stocks: Stocks::Sorted,
    load: Partitioning::RoundRobin,
    index_inserts: Switch::On,
    unvalidated_reads: Switch::Off,
    without: &[],
};

/// The defaults that make a run like DBx1000.
const DBX1000: Ways = Ways {
    durability: Durability::None,
    row_lock: RowLock::Latch,
    retry: Retry::Buffer,
    row_copies: RowCopies::Rows,
    commit_locks: CommitLocks::NoWait,
    deadlocks: Deadlocks::Lists,
    timestamp_draws: TimestampDraws::Published,
    hot_rows: HotRows::Early,
    stocks: Stocks::Drawn,
    load: Partitioning::Blocks,
    index_inserts: Switch::Off,
    unvalidated_reads: Switch::On,
    without: &[Optimisation::PlainLocks, Optimisation::LookAhead],
};

/// The defaults that make a run like Shore-MT.
const SHORE_MT: Ways = Ways {
    hot_rows: HotRows::Early,
    stocks: Stocks::Drawn,
    without: &[Optimisation::Prefetch, Optimisation::LookAhead],
    ..OWN
};

impl Ways {
    /// The defaults of these programs' flags.
    pub fn of(like: Option<Like>) -> Self {
        match like {
            None => OWN,
            Some(Like::Dbx1000) => DBX1000,
            Some(Like::ShoreMt) => SHORE_MT,
        }
    }
}
