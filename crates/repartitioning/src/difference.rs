//! The changes that lead from one map to another.
//!
//! Boundaries that only the old map has are removed by a merge, and boundaries that only the new
//! map has are created by a split, each once. In between, each key moves at most once, even if a
//! second move would shorten the list. Under these rules no list is shorter, which a test proves
//! for all small maps: keys can move together only if they are adjacent and have the same old and
//! the same new owner.

use crate::cores::Core;
use crate::map::{Change, MapError, PartitionMap, TablePartitions};

/// Returns the shortest list of changes from `old` to `new`: table by table, first the splits and
/// merges that must precede the moves, then the moves, then the other splits and merges.
///
/// # Errors
/// [`MapError`]: the two do not have the same tables with the same positions.
pub fn difference(old: &PartitionMap, new: &PartitionMap) -> Result<Vec<Change>, MapError> {
    let mut changes = Vec::new();
    for table in new.tables() {
        let before = old.table(table.table).ok_or(MapError::Unknown(table.table))?;
        if before.domain() != table.domain() {
            let (end, low) = (before.domain().end, table.domain().end);
            return Err(MapError::Gap { table: table.name.clone(), end, low });
        }
        of_table(before, table, &mut changes);
    }
    match old.tables().iter().find(|table| new.table(table.table).is_none()) {
        Some(table) => Err(MapError::Unknown(table.table)),
        None => Ok(changes),
    }
}

/// An interval between two boundaries of either map.
struct Interval {
    low: u64,
    from: Core,
    to: Core,
    in_old: bool,
    in_new: bool,
}

fn intervals(old: &TablePartitions, new: &TablePartitions) -> Vec<Interval> {
    let lows = |table: &TablePartitions| -> Vec<u64> {
        table.partitions.iter().map(|partition| partition.range.low).collect()
    };
    let (of_old, of_new) = (lows(old), lows(new));
    let mut all: Vec<u64> = of_old.iter().chain(&of_new).copied().collect();
    all.sort_unstable();
    all.dedup();
    let interval = |low: u64| Interval {
        low,
        from: old.partitions[old.place(low)].owner,
        to: new.partitions[new.place(low)].owner,
        in_old: of_old.binary_search(&low).is_ok(),
        in_new: of_new.binary_search(&low).is_ok(),
    };
    all.into_iter().map(interval).collect()
}

fn of_table(old: &TablePartitions, new: &TablePartitions, changes: &mut Vec<Change>) {
    let table = new.table;
    let intervals = intervals(old, new);
    let mut moves = Vec::new();
    let mut late = Vec::new();
    for (number, interval) in intervals.iter().enumerate() {
        let before = number.checked_sub(1).map(|before| &intervals[before]);
        let alike = before.is_some_and(|before| (before.from, before.to) == (interval.from, interval.to));
        let is_common = interval.in_old && interval.in_new;
        let (split, merge) =
            (Change::Split { table, at: interval.low }, Change::Merge { table, at: interval.low });
        match (interval.in_old, interval.in_new) {
            // Parts that move to different owners are split before the move, others after it.
            (false, _) if alike => late.push(split),
            (false, _) => changes.push(split),
            // Parts that move to the same owner are merged before the move.
            (_, false) if alike => changes.push(merge),
            (_, false) => late.push(merge),
            _ => {}
        }
        if interval.from != interval.to && (is_common || !alike) {
            moves.push(Change::Move { table, low: interval.low, to: interval.to });
        }
    }
    changes.append(&mut moves);
    changes.append(&mut late);
}
