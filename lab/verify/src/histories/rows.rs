//! The tables of random histories, their initial rows, and the rows at the end.

use std::collections::BTreeMap;
use std::fmt::Debug;

use boundary::{Bounds, Database, SchemaBuilder, Verbs};
use platform::Platform;
use schema::{HashPlan, IndexKind, Inspector, Partitioning, Row, Schema, Table, TableOptions};

/// Offset of the keys of cells in the history: they follow those of items.
pub(super) const CELLS: u64 = 1 << 20;
/// Offset of the keys of lines, which follow those of cells.
const LINES: u64 = 1 << 21;
/// Number of tags of items.
pub(super) const TAGS: u64 = 3;
/// The leading column of keys, by which tables may be partitioned.
const PART: u64 = 1 << 48;

/// A row that is scanned by key and by tag, and found by a unique mark.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_tag(tag, id)), unique_index(by_mark(mark)))]
pub(super) struct Item {
    pub id: u64,
    pub tag: u64,
    pub mark: u64,
    pub version: u64,
    pub copies: [u64; 8],
}

/// A row in a hash index.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub(super) struct Cell {
    pub id: u64,
    pub version: u64,
    pub copies: [u64; 8],
}

/// A row of a table with a primary index only: rows that are inserted together enter it together.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub(super) struct Line {
    pub id: u64,
    pub version: u64,
    pub copies: [u64; 2],
}

/// A row in an ordered primary index.
pub(super) trait Ordered: Row<Key = u64> + Debug {
    /// Offset of its keys in the history.
    const NAMES: u64;

    /// Makes a row; rows without tags ignore `tag`.
    fn make(key: u64, tag: u64, version: u64) -> Self;

    /// Its version.
    fn version(&self) -> u64;

    /// True if all columns have the same version.
    fn is_whole(&self) -> bool;
}

impl Ordered for Item {
    const NAMES: u64 = 0;

    fn make(key: u64, tag: u64, version: u64) -> Self {
        Item { id: stored(key), tag, mark: mark(key, tag), version, copies: [version; 8] }
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_whole(&self) -> bool {
        self.copies == [self.version; 8] && self.mark == mark(named(self.id), self.tag)
    }
}

impl Ordered for Line {
    const NAMES: u64 = LINES;

    fn make(key: u64, _: u64, version: u64) -> Self {
        Line { id: stored(key), version, copies: [version; 2] }
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_whole(&self) -> bool {
        self.copies == [self.version; 2]
    }
}

/// The mark of a key with a tag.
pub(super) fn mark(key: u64, tag: u64) -> u64 {
    key * TAGS + tag
}

/// Number of keys with the same leading column.
pub(super) const KEYS_OF_PART: u64 = 8;

/// The stored key of a small number: the leading column changes every few numbers, so that keys
/// spread over the partitions.
pub(super) fn stored(key: u64) -> u64 {
    (key / KEYS_OF_PART) * PART + key
}

/// The small number of a stored key.
pub(super) fn named(stored: u64) -> u64 {
    stored % PART
}

/// The tables.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    pub items: Table<Item>,
    /// `None` in histories of several instances.
    pub lines: Option<Table<Line>>,
    pub cells: Table<Cell>,
}

/// Declares the tables, divided into these numbers of partitions, if at all: lines, if there are
/// any, like items.
pub(super) fn declare(
    schema: &mut SchemaBuilder,
    ordered: Option<u16>,
    has_lines: bool,
    cells: Option<u16>,
) -> Tables {
    let options = |count: Option<u16>| {
        let partitioning = count.map(|count| Partitioning { first: 0, count });
        TableOptions { partitioning, ..TableOptions::default() }
    };
    let items = schema.table::<Item>("items", options(ordered));
    let kinds = vec![IndexKind::Hash(HashPlan::Mixed)];
    let cells = schema.table::<Cell>("cells", TableOptions { rows: 4, kinds, ..options(cells) });
    let lines = has_lines.then(|| schema.table::<Line>("lines", options(ordered)));
    Tables { items, lines, cells }
}

/// Inserts half of all rows. Returns versions and tags by key.
pub(super) fn load<P: Platform>(
    c: P::Core,
    database: &Database<P>,
    tables: Tables,
    keys: u64,
) -> BTreeMap<u64, (u64, u64)> {
    let mut session = database.session(c, None, false).expect("a session");
    let mut initial = BTreeMap::new();
    for key in (0..keys).step_by(2) {
        let (version, tag) = (key + 1, key % TAGS);
        let cell = Cell { id: key / 2, version, copies: [version; 8] };
        let with_cell = key % 4 == 0;
        let loaded = session.transact(&Bounds::default(), |t| {
            t.insert(tables.items, &Item::make(key, tag, version))?;
            if with_cell { t.insert(tables.cells, &cell) } else { Ok(()) }
        });
        loaded.expect("an empty database takes rows");
        initial.insert(key, (version, tag));
        if with_cell {
            initial.insert(CELLS + key / 2, (version, 0));
        }
    }
    initial
}

/// The versions of all rows, after a check that indexes agree.
pub(super) fn inspect<P: Platform>(c: P::Core, database: &Database<P>, tables: Tables) -> BTreeMap<u64, u64> {
    let mut last = BTreeMap::new();
    let mut inspector = database.inspector(c);
    inspector.scan(tables.items.primary(), &0, &u64::MAX, &mut |item: &Item| {
        assert!(last.insert(named(item.id), item.version).is_none(), "twice in the index: {item:?}");
    });
    let mut tagged = BTreeMap::new();
    let (low, high) = ((0, 0), (u64::MAX, u64::MAX));
    inspector.scan(tables.items.index(Item::BY_TAG), &low, &high, &mut |item: &Item| {
        assert!(tagged.insert(named(item.id), item.version).is_none(), "twice in the index: {item:?}");
    });
    assert_eq!(last, tagged, "the indexes of a table disagree");
    let mut marked = BTreeMap::new();
    inspector.scan(tables.items.index(Item::BY_MARK), &0, &u64::MAX, &mut |item: &Item| {
        assert!(marked.insert(named(item.id), item.version).is_none(), "twice in the index: {item:?}");
    });
    assert_eq!(last, marked, "the indexes of a table disagree");
    if let Some(lines) = tables.lines {
        inspector.scan(lines.primary(), &0, &u64::MAX, &mut |line: &Line| {
            let before = last.insert(LINES + named(line.id), line.version);
            assert!(before.is_none(), "twice in the index: {line:?}");
        });
    }
    inspector.scan(tables.cells.primary(), &0, &u64::MAX, &mut |cell: &Cell| {
        assert!(last.insert(CELLS + named(cell.id), cell.version).is_none(), "twice in the index: {cell:?}");
    });
    last
}
