//! How a map changes while transactions run: what is asked for, and in which order it happens.
//!
//! A rearrangement goes through [`State`]s, one after the other, as [`Rearrangement::advance`] is told what has happened. The worker that makes it
//! does what the state asks for, and serves others meanwhile, because transactions that are active may need it:
//!
//! ```text
//! Asked ─► Claimed ─► Drained ─► Quiet ─► Changed ─► Over
//! ```
//!
//! - `Asked`: the worker claims the lock of the map; if somebody else has it, the worker tries again.
//! - `Claimed`: no transaction begins any more. Those that are active end.
//! - `Drained`: no transaction is active, so nobody waits for an answer. But owners may not have heard yet how the last transactions have ended,
//!   and have branches and locks of them. The worker asks all others, and each answers when it has done all that was said before: inboxes are
//!   emptied in the order in which they are filled, by whomever, and what a transaction says was said before it was over.
//! - `Quiet`: nobody has a branch or a lock. The map is exchanged, unless it cannot be changed as asked.
//! - `Changed`: transactions may begin again; each sees the new version.

use crate::map::{Map, Partition};

/// One change of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearrange {
    /// The partition of a table that has this leading column becomes two, the second of which begins with the column.
    Split {
        /// The table.
        table: usize,
        /// The leading column.
        column: u16,
    },
    /// The partition that has this leading column and the one behind it become one, which belongs to the owner of the first.
    Merge {
        /// The table.
        table: usize,
        /// The leading column.
        column: u16,
    },
    /// The partition that has this leading column belongs to this worker.
    Move {
        /// The table.
        table: usize,
        /// The leading column.
        column: u16,
        /// The worker.
        owner: u16,
    },
}

/// Why a map cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RearrangeError {
    /// There is no such partition.
    #[error("{0:?}: table {1} has no partition with that column")]
    NoPartition(Rearrange, usize),
    /// A partition is split within, not at its beginning.
    #[error("{0:?}: a partition begins with that column already")]
    BeginsThere(Rearrange),
    /// The last partition has none behind it.
    #[error("{0:?}: there is no partition behind")]
    NoneBehind(Rearrange),
    /// There is no such worker.
    #[error("{0:?}: there are {1} workers")]
    NoWorker(Rearrange, usize),
}

impl Map {
    /// The map after these changes, one after the other.
    ///
    /// # Errors
    /// [`RearrangeError`]: one of them cannot be made.
    pub fn rearranged(&self, steps: &[Rearrange]) -> Result<Map, RearrangeError> {
        let mut map = self.clone();
        for step in steps {
            let (table, column) = match *step {
                Rearrange::Split { table, column }
                | Rearrange::Merge { table, column }
                | Rearrange::Move { table, column, .. } => (table, column),
            };
            let mut partitions = map.partitions(table).to_vec();
            let has = |partition: &Partition| {
                column >= partition.first && column - partition.first < partition.columns
            };
            let place = partitions.iter().position(has).ok_or(RearrangeError::NoPartition(*step, table))?;
            let here = partitions[place];
            match *step {
                Rearrange::Split { .. } => {
                    let columns = column - here.first;
                    if columns == 0 {
                        return Err(RearrangeError::BeginsThere(*step));
                    }
                    partitions[place].columns = columns;
                    let behind = Partition { first: column, columns: here.columns - columns, ..here };
                    partitions.insert(place + 1, behind);
                }
                Rearrange::Merge { .. } => {
                    if place + 1 == partitions.len() {
                        return Err(RearrangeError::NoneBehind(*step));
                    }
                    partitions[place].columns += partitions.remove(place + 1).columns;
                }
                Rearrange::Move { owner, .. } => {
                    if usize::from(owner) >= map.workers() {
                        return Err(RearrangeError::NoWorker(*step, map.workers()));
                    }
                    partitions[place].owner = owner;
                }
            }
            map.set_partitions(table, partitions);
        }
        Ok(map)
    }
}

/// Where a rearrangement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The lock of the map is to be claimed.
    Asked,
    /// Active transactions are to end.
    Claimed,
    /// All others are to do what was said before.
    Drained,
    /// The map is to be exchanged.
    Quiet,
    /// The lock is to be given back.
    Changed,
    /// There is nothing to do.
    Over,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The lock is claimed.
    Claim,
    /// No transaction is active.
    Drain,
    /// All others have answered.
    Fence,
    /// The map is exchanged.
    Exchange,
    /// The lock is given back.
    Release,
}

/// All transitions that there are.
const LEGAL: [(State, Event, State); 5] = [
    (State::Asked, Event::Claim, State::Claimed),
    (State::Claimed, Event::Drain, State::Drained),
    (State::Drained, Event::Fence, State::Quiet),
    (State::Quiet, Event::Exchange, State::Changed),
    (State::Changed, Event::Release, State::Over),
];

/// A rearrangement under way.
pub(crate) struct Rearrangement {
    state: State,
}

impl Rearrangement {
    /// One that is asked for.
    pub(crate) fn new() -> Self {
        Rearrangement { state: State::Asked }
    }

    /// Where it is.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Something has happened.
    ///
    /// # Panics
    /// If it may not happen now.
    pub(crate) fn advance(&mut self, event: Event) {
        let legal = LEGAL.iter().find(|(from, what, _)| (*from, *what) == (self.state, event));
        self.state = legal.unwrap_or_else(|| panic!("{event:?} while {:?}", self.state)).2;
    }
}

#[cfg(test)]
mod tests {
    use engine::{Partitioning, TableDivision};
    use proptest::prelude::*;

    use super::*;

    const PARTS: u16 = 12;
    const WORKERS: usize = 3;

    fn map() -> Map {
        let partitioning = Some(Partitioning { first: 5, count: PARTS });
        let table = TableDivision { name: "rows".to_owned(), partitioning, read_only: false };
        Map::new(&[table], WORKERS, &|part, parts| part * WORKERS / parts).expect("divided")
    }

    #[test]
    fn partitions_are_split_merged_and_moved() {
        let (split, merge) =
            (Rearrange::Split { table: 0, column: 7 }, Rearrange::Merge { table: 0, column: 8 });
        let steps = [split, Rearrange::Move { table: 0, column: 16, owner: 0 }, merge];
        let map = map().rearranged(&steps).expect("possible");
        let partition = |first, columns, owner| Partition { first, columns, owner };
        assert_eq!(map.partitions(0), [partition(5, 2, 0), partition(7, 6, 0), partition(13, 4, 0)]);
        let refused = |step| self::map().rearranged(&[step]).expect_err("impossible");
        let at_edge = Rearrange::Split { table: 0, column: 9 };
        assert_eq!(refused(at_edge), RearrangeError::BeginsThere(at_edge));
        let last = Rearrange::Merge { table: 0, column: 16 };
        assert_eq!(refused(last), RearrangeError::NoneBehind(last));
        let outside = Rearrange::Split { table: 0, column: 17 };
        assert_eq!(refused(outside), RearrangeError::NoPartition(outside, 0));
        let nobody = Rearrange::Move { table: 0, column: 5, owner: 3 };
        assert_eq!(refused(nobody), RearrangeError::NoWorker(nobody, WORKERS));
    }

    #[test]
    #[should_panic(expected = "Exchange while Claimed")]
    fn nothing_changes_while_transactions_are_active() {
        let mut rearrangement = Rearrangement::new();
        rearrangement.advance(Event::Claim);
        rearrangement.advance(Event::Exchange);
    }

    proptest! {
        /// Whatever is done, each column has one owner, and partitions cover all columns without overlap.
        #[test]
        fn each_column_has_one_owner(
            steps in prop::collection::vec((0u8..3, 0u16..30, 0u16..5), 0..60),
        ) {
            let mut map = map();
            for (kind, column, owner) in steps {
                let step = match kind {
                    0 => Rearrange::Split { table: 0, column },
                    1 => Rearrange::Merge { table: 0, column },
                    _ => Rearrange::Move { table: 0, column, owner },
                };
                if let Ok(changed) = map.rearranged(&[step]) {
                    map = changed;
                }
                let mut next = 5;
                for partition in map.partitions(0) {
                    prop_assert_eq!(partition.first, next);
                    prop_assert!(partition.columns > 0 && usize::from(partition.owner) < WORKERS);
                    for column in partition.first..partition.first + partition.columns {
                        prop_assert_eq!(map.owner_of_column(0, column), Some(partition.owner));
                    }
                    next += partition.columns;
                }
                prop_assert_eq!(next, 5 + PARTS);
            }
        }
    }
}
