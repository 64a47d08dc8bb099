//! Random transactions over few rows, recorded for the checker.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;

use cc::{Abort, InstanceOptions, Scheme};
use engine::testing::{Change, Entry, History, Seen};
use engine::{
    Bounds, Database, Direction, Ending, HashPlan, IndexKind, Inspector, Partitioning, Row, Schema,
    SchemaBuilder, Session, Table, TableOptions, Transaction, Verbs,
};
use platform::{Intent, Platform};

use crate::support::{Random, options, workers};

/// Keys of cells follow those of items in the history.
const CELLS: u64 = 1 << 20;
/// Virtual time after which a transaction must have succeeded.
const LONGEST_NANOS: u64 = 200_000_000;
/// Tags that items have.
const TAGS: u64 = 3;
/// The leading column of keys, by which tables may be partitioned.
const PART: u64 = 1 << 48;

/// A row that can be scanned, by key and by tag.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_tag(tag, id)))]
struct Item {
    id: u64,
    tag: u64,
    version: u64,
    copies: [u64; 8],
}

/// A row in a hash index.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Cell {
    id: u64,
    version: u64,
    copies: [u64; 8],
}

impl Item {
    fn make(key: u64, tag: u64, version: u64) -> Self {
        Item { id: stored(key), tag, version, copies: [version; 8] }
    }
}

/// Small numbers as keys that alternate between two partitions' halves.
fn stored(key: u64) -> u64 {
    (key / 8) * PART + key
}

fn named(stored: u64) -> u64 {
    stored % PART
}

/// How a history is made.
#[derive(Clone, Copy)]
pub struct Mix {
    pub workers: usize,
    /// Transactions of each worker.
    pub transactions: u64,
    /// Keys of items; cells have half as many.
    pub keys: u64,
    /// Those that are used most: their number and the first of them.
    pub hot: (u64, u64),
    /// Whether the table of items is divided in two.
    pub partitioned: bool,
    /// Transactions in a hundred that read a snapshot.
    pub snapshots: u64,
    /// Whether those succeed at once.
    pub snapshots_never_abort: bool,
    /// Shortest epoch: several a transaction, or several transactions an epoch.
    pub epoch_nanos: u64,
}

#[derive(Clone, Copy)]
struct Tables {
    items: Table<Item>,
    cells: Table<Cell>,
}

/// What one attempt saw and did.
struct Recorder<'r> {
    random: &'r mut Random,
    tables: Tables,
    keys: u64,
    hot: (u64, u64),
    next_version: &'r mut u64,
    reads: Vec<(u64, Seen)>,
    /// Keys that it changed: whether there was a row before, and what there is now.
    mine: BTreeMap<u64, (bool, Option<(u64, u64)>)>,
}

impl Recorder<'_> {
    fn version(&mut self) -> u64 {
        *self.next_version += 1;
        *self.next_version
    }

    /// Takes note of what was seen, unless it is the transaction's own doing, as it should be if it changed the key.
    fn saw(&mut self, key: u64, seen: Seen) {
        let Some((_, own)) = self.mine.get(&key) else {
            self.reads.push((key, seen));
            return;
        };
        let fits = match seen {
            Seen::Absent => own.is_none(),
            Seen::Present => own.is_some(),
            Seen::Version(version) => own.is_some_and(|(its, _)| its == version),
            Seen::NotTagged(tag) => own.is_none_or(|(_, its)| its != tag),
        };
        // An optimistic transaction that is bound to fail may see it. If it commits nevertheless, the checker objects.
        if !fits {
            self.reads.push((key, Seen::Version(u64::MAX)));
        }
    }

    fn made(&mut self, key: u64, was_there: bool, now: Option<(u64, u64)>) {
        self.mine.entry(key).or_insert((was_there, None)).1 = now;
    }

    fn changes(&self) -> Vec<(u64, Change)> {
        #[allow(clippy::type_complexity, reason = "an entry of the map")]
        let change = |(key, (was, now)): (&u64, &(bool, Option<(u64, u64)>))| match (was, now) {
            (false, Some((version, tag))) => Some((*key, Change::Insert { version: *version, tag: *tag })),
            (true, Some((version, tag))) => Some((*key, Change::Update { version: *version, tag: *tag })),
            (true, None) => Some((*key, Change::Delete)),
            (false, None) => None,
        };
        self.mine.iter().filter_map(change).collect()
    }

    /// Some transaction.
    fn run<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        for _ in 0..2 + self.random.below(3) {
            let key = self.key();
            match self.random.below(13) {
                0 => self.read(t, key)?,
                1 | 2 => self.update(t, key)?,
                3 => self.insert(t, key)?,
                4 => self.delete(t, key)?,
                5 | 6 => self.scan(t)?,
                7 => self.scan_tag(t)?,
                8 => self.replace(t, key)?,
                9 => self.delete_and_insert(t, key)?,
                10 if self.random.chance(40) => self.sweep(t, key)?,
                _ => self.cell(t, key / 2)?,
            }
        }
        if self.random.chance(5) { Err(Abort::RollBack) } else { Ok(()) }
    }

    /// Some transaction that only reads.
    fn look<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        for _ in 0..1 + self.random.below(4) {
            let key = self.key();
            match self.random.below(4) {
                0 => self.read(t, key)?,
                1 => self.scan(t)?,
                2 => self.scan_tag(t)?,
                _ => self.look_at_cell(t, key / 2)?,
            }
        }
        Ok(())
    }

    fn look_at_cell<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let Some(cell) = t.find(self.tables.cells.primary(), &key, Intent::Read)? else {
            self.saw(CELLS + key, Seen::Absent);
            return Ok(());
        };
        let row = t.row(cell)?;
        assert!(row.copies == [row.version; 8], "a torn row: {row:?}");
        self.saw(CELLS + key, Seen::Version(row.version));
        Ok(())
    }

    fn key(&mut self) -> u64 {
        let (count, first) = self.hot;
        let key = if self.random.chance(80) {
            first + self.random.below(count)
        } else {
            self.random.below(self.keys)
        };
        key.min(self.keys - 1)
    }

    /// Deletes or inserts all keys of a range: leaves become empty, or are split.
    fn sweep<T: Verbs>(&mut self, t: &mut T, first: u64) -> Result<(), Abort> {
        let end = (first + 1 + self.random.below(self.keys / 4)).min(self.keys);
        let deletes = self.random.chance(60);
        for key in first..end {
            if deletes {
                self.delete(t, key)?;
            } else if t.find(self.tables.items.primary(), &stored(key), Intent::Read)?.is_some() {
                self.saw(key, Seen::Present);
            } else {
                self.insert(t, key)?;
            }
        }
        Ok(())
    }

    fn read<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), Intent::Read)? else {
            self.saw(key, Seen::Absent);
            return Ok(());
        };
        if self.random.chance(20) {
            self.saw(key, Seen::Present);
            return Ok(());
        }
        let row = t.row(item)?;
        assert!(row.copies == [row.version; 8] && row.id == stored(key), "a torn row: {row:?}");
        self.saw(key, Seen::Version(row.version));
        Ok(())
    }

    /// A new version, of what was read or blindly.
    fn update<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let intent = if self.random.chance(50) { Intent::Write } else { Intent::Read };
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), intent)? else {
            self.saw(key, Seen::Absent);
            return Ok(());
        };
        let old = if self.random.chance(70) {
            let old = t.get(item, Item::VERSION)?;
            self.saw(key, Seen::Version(old));
            old
        } else {
            self.saw(key, Seen::Present);
            0
        };
        let tag = t.get(item, Item::TAG)?;
        let version = self.version();
        t.put(item, Item::VERSION, &version)?;
        t.put(item, Item::COPIES, &[version; 8])?;
        assert!(old != version && t.get(item, Item::VERSION)? == version);
        self.made(key, true, Some((version, tag)));
        Ok(())
    }

    /// Inserts, after a look or blindly. A key that is there ends the transaction.
    fn insert<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        if self.random.chance(80)
            && t.find(self.tables.items.primary(), &stored(key), Intent::Read)?.is_some()
        {
            self.saw(key, Seen::Present);
            return Ok(());
        }
        let (version, tag) = (self.version(), self.random.below(TAGS));
        match t.insert(self.tables.items, &Item::make(key, tag, version)) {
            Ok(()) => {
                self.saw(key, Seen::Absent);
                self.made(key, false, Some((version, tag)));
                Ok(())
            }
            Err(abort) => {
                if matches!(abort, Abort::Duplicate { .. }) {
                    self.saw(key, Seen::Present);
                }
                Err(abort)
            }
        }
    }

    fn delete<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), Intent::Write)? else {
            self.saw(key, Seen::Absent);
            return Ok(());
        };
        self.saw(key, Seen::Present);
        t.delete(item)?;
        self.made(key, true, None);
        let again = t.find(self.tables.items.primary(), &stored(key), Intent::Read)?;
        self.saw(key, if again.is_some() { Seen::Present } else { Seen::Absent });
        Ok(())
    }

    /// Gives an item another tag, hence another place in the secondary index.
    fn replace<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), Intent::Write)? else {
            self.saw(key, Seen::Absent);
            return Ok(());
        };
        self.saw(key, Seen::Present);
        let (version, tag) = (self.version(), self.random.below(TAGS));
        t.replace(item, &Item::make(key, tag, version))?;
        self.made(key, true, Some((version, tag)));
        self.read(t, key)
    }

    fn delete_and_insert<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        self.delete(t, key)?;
        if self.random.chance(80) {
            self.insert(t, key)?;
        }
        if self.random.chance(20) {
            self.delete(t, key)?;
        }
        Ok(())
    }

    /// A range of items, or the first few of it.
    fn scan<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        let first = self.key();
        let last = first + self.random.below((self.keys - first).min(24));
        let forward = self.random.chance(50);
        let direction = if forward { Direction::Forward } else { Direction::Reverse };
        let most = if self.random.chance(40) { 1 + self.random.below(3) } else { u64::MAX };
        let mut found = Vec::new();
        t.scan(
            self.tables.items.primary(),
            &stored(first),
            &stored(last),
            direction,
            Intent::Read,
            &mut |t, item| {
                let row = t.row(item)?;
                assert!(row.copies == [row.version; 8], "a torn row: {row:?}");
                found.push((named(row.id), row.version));
                Ok(if found.len() as u64 >= most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            },
        )?;
        assert!(found.windows(2).all(|pair| (pair[0].0 < pair[1].0) == forward), "unordered: {found:?}");
        // What was visited: up to the last row if the visitor had enough.
        let (mut low, mut high) = (first, last);
        if let (true, Some((end, _))) = (found.len() as u64 >= most, found.last()) {
            if forward { high = *end } else { low = *end }
        }
        for key in low..=high {
            let seen = found.iter().find(|(its, _)| *its == key);
            self.saw(key, seen.map_or(Seen::Absent, |(_, version)| Seen::Version(*version)));
        }
        Ok(())
    }

    /// All items with some tag.
    fn scan_tag<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        let tag = self.random.below(TAGS);
        let direction = if self.random.chance(50) { Direction::Forward } else { Direction::Reverse };
        let mut found = BTreeMap::new();
        let (low, high) = ((tag, 0), (tag, u64::MAX));
        t.scan(
            self.tables.items.index(Item::BY_TAG),
            &low,
            &high,
            direction,
            Intent::Read,
            &mut |t, item| {
                let row = t.row(item)?;
                assert!(row.tag == tag && row.copies == [row.version; 8], "a torn row: {row:?}");
                assert!(found.insert(named(row.id), row.version).is_none(), "twice in a scan: {row:?}");
                Ok(ControlFlow::Continue(()))
            },
        )?;
        for key in 0..self.keys {
            let seen = found.get(&key);
            self.saw(key, seen.map_or(Seen::NotTagged(tag), |version| Seen::Version(*version)));
        }
        Ok(())
    }

    /// Something with a row of the hash index.
    fn cell<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let cells = self.tables.cells;
        let choice = self.random.below(4);
        let intent = if choice == 0 { Intent::Read } else { Intent::Write };
        let name = CELLS + key;
        let version = self.version();
        match t.find(cells.primary(), &key, intent)? {
            Some(cell) if choice < 3 => {
                let old = t.row(cell)?;
                assert!(old.copies == [old.version; 8], "a torn row: {old:?}");
                self.saw(name, Seen::Version(old.version));
                if choice == 1 {
                    t.put(cell, Cell::VERSION, &version)?;
                    t.put(cell, Cell::COPIES, &[version; 8])?;
                    self.made(name, true, Some((version, 0)));
                } else if choice == 2 {
                    t.delete(cell)?;
                    self.made(name, true, None);
                }
            }
            Some(cell) => {
                self.saw(name, Seen::Present);
                t.replace(cell, &Cell { id: key, version, copies: [version; 8] })?;
                self.made(name, true, Some((version, 0)));
            }
            None => {
                self.saw(name, Seen::Absent);
                if choice > 1 {
                    t.insert(cells, &Cell { id: key, version, copies: [version; 8] })?;
                    self.made(name, false, Some((version, 0)));
                }
            }
        }
        Ok(())
    }
}

/// One transaction of a worker, as it ended.
fn transact<P: Platform, S: Scheme<P>>(
    session: &mut Session<'_, P, S>,
    random: &mut Random,
    (tables, mix): (Tables, &Mix),
    next_version: &mut u64,
) -> Entry {
    let c = session.core();
    let (mut reads, mut writes, mut began) = (Vec::new(), Vec::new(), 0);
    // Virtual time tells a transaction that never succeeds from one that waits for the host.
    let deadline = P::VIRTUAL.then(|| P::now(c).plus(LONGEST_NANOS));
    let reads_only = mix.snapshots > 0 && random.chance(mix.snapshots);
    let bounds = Bounds { deadline, attempts_max: (reads_only && mix.snapshots_never_abort).then_some(1) };
    let run = |t: &mut Transaction<'_, '_, P, S>| {
        began = P::now(c).0;
        let mut recorder = Recorder {
            random,
            tables,
            keys: mix.keys,
            hot: mix.hot,
            next_version,
            reads: Vec::new(),
            mine: BTreeMap::new(),
        };
        let result = if reads_only { recorder.look(t) } else { recorder.run(t) };
        writes = recorder.changes();
        reads = recorder.reads;
        result
    };
    let result = if reads_only { session.snapshot(&bounds, run) } else { session.transact(&bounds, run) };
    let ended = P::now(c).0;
    let stamp = match result {
        Ok(Ending::Committed((), stamp)) => Some(stamp),
        Ok(Ending::RolledBack) | Err(Abort::Duplicate { .. }) => None,
        Err(abort) => panic!("a transaction failed: {abort}"),
    };
    if stamp.is_none() {
        writes.clear();
    }
    Entry { stamp, began, ended, reads, writes, snapshot: reads_only }
}

/// Runs random transactions on a fresh database and records them.
pub fn record<P: Platform, S: Scheme<P>>(c: P::Core, mix: &Mix, seed: u64) -> History {
    let mut schema = SchemaBuilder::new();
    let partitioning = mix.partitioned.then_some(Partitioning { first: 0, count: 2 });
    let items = schema.table::<Item>("items", TableOptions { partitioning, ..TableOptions::default() });
    let hash = vec![IndexKind::Hash(HashPlan::Mixed)];
    let cells =
        schema.table::<Cell>("cells", TableOptions { rows: 4, kinds: hash, ..TableOptions::default() });
    let tables = Tables { items, cells };
    let options = InstanceOptions { epoch_nanos: mix.epoch_nanos, ..options(mix.workers + 1) };
    let database = Database::<P, S>::create(c, &options, schema, &|_| None).expect("memory for tables");
    let initial = load(c, &database, tables, mix.keys);
    if S::SNAPSHOTS {
        database.instance().settle(c);
    }
    let entries = Mutex::new(Vec::new());
    workers(c, &database, mix.workers, &|session, number| {
        let mut random = Random::new(seed, number as u64);
        let mut next_version = (number as u64 + 1) << 32;
        for _ in 0..mix.transactions {
            let entry = transact(session, &mut random, (tables, mix), &mut next_version);
            entries.lock().expect("no worker panicked").push(entry);
            session.tend(P::now(session.core()));
        }
    });
    let entries = entries.into_inner().expect("no worker panicked");
    History { initial, entries, last: Some(inspect(c, &database, tables)), by_epochs: !S::STRICT }
}

/// Half of all rows.
fn load<P: Platform, S: Scheme<P>>(
    c: P::Core,
    database: &Database<P, S>,
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

/// All rows, after a check that indexes agree.
fn inspect<P: Platform, S: Scheme<P>>(
    c: P::Core,
    database: &Database<P, S>,
    tables: Tables,
) -> BTreeMap<u64, u64> {
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
    inspector.scan(tables.cells.primary(), &0, &u64::MAX, &mut |cell: &Cell| {
        assert!(last.insert(CELLS + cell.id, cell.version).is_none(), "twice in the index: {cell:?}");
    });
    last
}
