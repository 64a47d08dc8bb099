//! The changes that lead from one map to another.
//!
//! Boundaries that only the old map has are merged away, and those that only the new one has are
//! split, each once. Between them keys move, each at most once: so what is moved twice is never the
//! price of a shorter list. Under these rules no list is shorter, which a test proves for all small
//! maps: keys can move together only if they have the same owner before and the same one after, and
//! lie beside each other.

use crate::cores::Core;
use crate::map::{Change, MapError, PartitionMap, TablePartitions};

/// The smallest list of changes that makes `new` of `old`: splits and merges that must come before
/// the moves, the moves, and the rest, table by table.
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

/// A piece between two boundaries of either map.
struct Piece {
    low: u64,
    from: Core,
    to: Core,
    in_old: bool,
    in_new: bool,
}

fn pieces(old: &TablePartitions, new: &TablePartitions) -> Vec<Piece> {
    let lows = |table: &TablePartitions| -> Vec<u64> {
        table.partitions.iter().map(|partition| partition.range.low).collect()
    };
    let (of_old, of_new) = (lows(old), lows(new));
    let mut all: Vec<u64> = of_old.iter().chain(&of_new).copied().collect();
    all.sort_unstable();
    all.dedup();
    let piece = |low: u64| Piece {
        low,
        from: old.partitions[old.place(low)].owner,
        to: new.partitions[new.place(low)].owner,
        in_old: of_old.binary_search(&low).is_ok(),
        in_new: of_new.binary_search(&low).is_ok(),
    };
    all.into_iter().map(piece).collect()
}

fn of_table(old: &TablePartitions, new: &TablePartitions, changes: &mut Vec<Change>) {
    let table = new.table;
    let pieces = pieces(old, new);
    let mut moves = Vec::new();
    let mut late = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let before = number.checked_sub(1).map(|before| &pieces[before]);
        let alike = before.is_some_and(|before| (before.from, before.to) == (piece.from, piece.to));
        let is_common = piece.in_old && piece.in_new;
        let (split, merge) = (Change::Split { table, at: piece.low }, Change::Merge { table, at: piece.low });
        match (piece.in_old, piece.in_new) {
            // Parts that go different ways are split before they go, others when they are there.
            (false, _) if alike => late.push(split),
            (false, _) => changes.push(split),
            // Parts that go the same way go as one.
            (_, false) if alike => changes.push(merge),
            (_, false) => late.push(merge),
            _ => {}
        }
        if piece.from != piece.to && (is_common || !alike) {
            moves.push(Change::Move { table, low: piece.low, to: piece.to });
        }
    }
    changes.append(&mut moves);
    changes.append(&mut late);
}
