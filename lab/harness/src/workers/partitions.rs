//! The owners of partitions of a durable database, with which the next run on it begins.
//!
//! They are stored in rows of the table that marks the end of loading, one for each partition. All
//! of them are replaced in one transaction whenever the map has changed. Any map is correct, so no
//! worker waits until they are durable: after a crash one of the former maps is stored.

use repartitioning::{Core, Partition, PartitionMap, Range, TablePartitions};

use crate::workers::membership::KIND_SHIFT;

/// The kind of such rows, above those of [`crate::workers::membership`].
const KIND: u64 = 4;
/// The lowest and the highest number of such a row.
pub(crate) const ROWS: (u64, u64) = (KIND << KIND_SHIFT, ((KIND + 1) << KIND_SHIFT) - 1);
/// Bits of a leading column, of a worker, and of the number of workers.
const BITS: u32 = 16;

/// A partition of a division: its lowest column, and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    division: u8,
    low: u16,
    owner: u16,
}

/// The owners of partitions in an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// Number of workers.
    workers: u16,
    /// The partitions, ascending.
    pieces: Vec<Piece>,
}

impl Remembered {
    /// The owners in this map, with this number of workers. `None`: some numbers do not fit the
    /// rows.
    pub(crate) fn of(map: &PartitionMap, workers: usize) -> Option<Self> {
        let piece = |(table, partition): (&TablePartitions, &Partition)| {
            let (division, low) = (table.table.0.try_into().ok()?, partition.range.low.try_into().ok()?);
            Some(Piece { division, low, owner: partition.owner.0 })
        };
        let pieces = map.partitions().map(piece).collect::<Option<Vec<Piece>>>()?;
        Some(Remembered { workers: workers.try_into().ok()?, pieces })
    }

    /// The numbers of its rows.
    pub(crate) fn rows(&self) -> Vec<u64> {
        let row = |piece: &Piece| {
            let parts = [piece.low, self.workers, piece.owner];
            parts
                .iter()
                .fold(KIND << 8 | u64::from(piece.division), |number, part| number << BITS | u64::from(*part))
        };
        self.pieces.iter().map(row).collect()
    }

    /// The owners that these rows describe, if there are such rows.
    pub(crate) fn of_rows(rows: &[u64]) -> Option<Self> {
        let rows = rows.iter().copied().filter(|row| (ROWS.0..=ROWS.1).contains(row));
        let piece = |row: u64| Piece {
            division: (row >> (3 * BITS)) as u8,
            low: (row >> (2 * BITS)) as u16,
            owner: row as u16,
        };
        let workers = (rows.clone().next()? >> BITS) as u16;
        let mut pieces: Vec<Piece> = rows.map(piece).collect();
        pieces.sort_unstable();
        Some(Remembered { workers, pieces })
    }

    /// The map for this number of workers, with the same keys as `even` and these owners.
    ///
    /// # Errors
    /// The owners are those of other workers or other keys: the reason, in words.
    pub(crate) fn map(&self, even: &PartitionMap, workers: usize) -> Result<PartitionMap, String> {
        if usize::from(self.workers) != workers {
            return Err(format!("an earlier run had {} workers: partitions begin evenly", self.workers));
        }
        let others = || "an earlier run had other partitions: they begin evenly".to_owned();
        let of_division = |table: &TablePartitions| {
            let of_this = self.pieces.iter().filter(|piece| u16::from(piece.division) == table.table.0);
            let begins: Vec<&Piece> = of_this.collect();
            let ends = begins.iter().skip(1).map(|piece| u64::from(piece.low)).chain([table.domain().end]);
            let partition = |(piece, end): (&&Piece, u64)| Partition {
                range: Range { low: piece.low.into(), end },
                owner: Core(piece.owner),
            };
            let partitions = begins.iter().zip(ends).map(partition).collect();
            TablePartitions { partitions, ..table.clone() }
        };
        let tables: Vec<TablePartitions> = even.tables().iter().map(of_division).collect();
        let map = PartitionMap::new(even.version(), tables).map_err(|_| others())?;
        let same = map.tables().iter().zip(even.tables()).all(|(one, other)| one.domain() == other.domain());
        let known = map.check_owners(|core| core.index() < workers).is_ok();
        (same && known).then_some(map).ok_or_else(others)
    }
}

#[cfg(test)]
mod tests {
    use repartitioning::{Change, Table};

    use super::*;

    fn even(positions: u64) -> PartitionMap {
        let domain = Range { low: 1, end: 1 + positions };
        let tables = [(Table(0), "a", domain), (Table(1), "b", Range { low: 0, end: 9 })];
        PartitionMap::even(&tables, &[0, 1, 2].map(Core)).expect("a map")
    }

    #[test]
    fn maps_come_back_from_their_rows() {
        let moved = |at| {
            [Change::Split { table: Table(0), at }, Change::Move { table: Table(0), low: at, to: Core(2) }]
        };
        let map = even(60).changed(&[moved(7), moved(30)].concat()).expect("possible");
        let mut rows = Remembered::of(&map, 3).expect("it fits").rows();
        assert_eq!(rows.len(), 3 + 2 + 3);
        // With rows of other kinds, in any order.
        rows.extend([1, 3 << KIND_SHIFT]);
        rows.reverse();
        let remembered = Remembered::of_rows(&rows).expect("there are some");
        let back = remembered.map(&even(60), 3).expect("the same keys");
        assert_eq!((back.tables(), back.version()), (map.tables(), 0));
        assert_eq!(Remembered::of_rows(&[1, 3 << KIND_SHIFT]), None);
    }

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let remembered = Remembered::of(&even(60), 3).expect("it fits");
        let why = |remembered: &Remembered, positions, workers| {
            remembered.map(&even(positions), workers).expect_err("another one")
        };
        assert_eq!(why(&remembered, 60, 4), "an earlier run had 3 workers: partitions begin evenly");
        assert_eq!(why(&remembered, 10, 3), "an earlier run had other partitions: they begin evenly");
        // An owner that does not exist, and a division without partitions.
        let absent = Remembered { workers: 2, ..remembered.clone() };
        assert_eq!(why(&absent, 60, 2), "an earlier run had other partitions: they begin evenly");
        let few = Remembered { pieces: remembered.pieces[..3].to_vec(), ..remembered };
        assert_eq!(why(&few, 60, 3), "an earlier run had other partitions: they begin evenly");
    }
}
