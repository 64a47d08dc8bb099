//! A worker's counts until they are collected.

use repartitioning::{Arrays, SYNCHRONIZATION_SETS_MAX};
use schema::Route;

use crate::map::Map;

/// One in this many is measured. A prime: transactions of two or four runs of actions are not
/// always measured in the same one.
pub(crate) const SAMPLE: u64 = 7;

/// For whom an action runs.
#[derive(Clone, Copy)]
pub(crate) enum For {
    /// A transaction of the worker's own.
    Own,
    /// Another worker's, which has sent it.
    Other,
}

/// A worker's counts.
pub(crate) struct Counting {
    pub arrays: Arrays,
    /// Runs of actions until one is measured.
    pub until_run: u64,
    /// Messages until one is measured.
    pub until_message: u64,
    /// Transactions of several sub-partitions until one is counted.
    pub until_synchronization: u64,
}

impl Counting {
    pub(crate) fn of(map: &Map) -> Box<Self> {
        // As long as no message comes, no poll for one is measured.
        Box::new(Counting {
            arrays: empty(map),
            until_run: 0,
            until_message: SAMPLE - 1,
            until_synchronization: 0,
        })
    }

    /// An action with this home.
    #[inline]
    pub(crate) fn act(&mut self, map: &Map, home: &Route, whose: For) {
        if let Some(sub) = map.sub_partition(home) {
            self.arrays.act(sub, class(home, whose));
        }
    }
}

/// Arrays for the sub-partitions of a map.
pub(crate) fn empty(map: &Map) -> Arrays {
    let classes = 2 * map.tables();
    Arrays::new(map.version(), map.sub_partitions(), classes, SYNCHRONIZATION_SETS_MAX)
}

/// The class of an action: even for the worker's own transactions, odd for those of others
/// ([`Arrays`]).
#[inline]
pub(crate) fn class(home: &Route, whose: For) -> usize {
    2 * home.table + whose as usize
}

/// Returns true if it is the turn of one in [`SAMPLE`].
#[inline]
pub(crate) fn is_due(until: &mut u64) -> bool {
    let due = *until == 0;
    *until = if due { SAMPLE - 1 } else { *until - 1 };
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_seven_is_measured() {
        let mut until = 0;
        assert_eq!((0..70).filter(|_| is_due(&mut until)).count(), 10);
    }
}
