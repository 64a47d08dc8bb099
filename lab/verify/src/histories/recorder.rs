//! One attempt of a random transaction, with its observations and changes.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use boundary::{Direction, Verbs};
use platform::Intent;
use schema::Table;
use terms::Abort;
use terms::random::Random;

use super::mix::Mix;
use super::rows::{CELLS, Cell, Item, Line, Ordered, TAGS, Tables, mark, named, stored};
use super::unnamed;
use crate::history::{Change, Seen, UNEXPLAINED};

/// Operations in a hundred of transactions with savepoints that are several behind one.
const PARTLY_PERCENT: u64 = 30;

/// Runs one attempt and records its observations and changes.
pub(super) struct Recorder<'r> {
    random: &'r mut Random,
    tables: Tables,
    /// Keys of items begin here, and end before `keys`.
    first: u64,
    keys: u64,
    /// The keys that most accesses use.
    hot: Range<u64>,
    /// True if all keys are of one of several sites.
    is_site: bool,
    /// True if it sets savepoints.
    savepoints: bool,
    next_version: &'r mut u64,
    reads: Vec<(u64, Seen)>,
    /// Keys that it changed: true if there was a row before, and the row that is there now.
    own_changes: BTreeMap<u64, (bool, Option<(u64, u64)>)>,
    /// All versions that it wrote, including those it overwrote.
    written: Vec<(u64, u64)>,
}

impl<'r> Recorder<'r> {
    /// An attempt over the keys of a database.
    pub(super) fn new(random: &'r mut Random, tables: Tables, mix: &Mix, next_version: &'r mut u64) -> Self {
        let savepoints = mix.savepoints;
        let recorder = Self::of_keys(random, tables, 0..mix.keys, mix.hot.clone(), next_version);
        Recorder { savepoints, ..recorder }
    }

    /// The same attempt, with savepoints or without.
    pub(super) fn with_savepoints(self, savepoints: bool) -> Self {
        Recorder { savepoints, ..self }
    }

    /// An attempt over the keys of one site.
    pub(super) fn of_site(
        random: &'r mut Random,
        tables: Tables,
        keys: Range<u64>,
        next_version: &'r mut u64,
    ) -> Self {
        let hot = keys.clone();
        Recorder { is_site: true, ..Self::of_keys(random, tables, keys, hot, next_version) }
    }

    fn of_keys(
        random: &'r mut Random,
        tables: Tables,
        keys: Range<u64>,
        hot: Range<u64>,
        next_version: &'r mut u64,
    ) -> Self {
        Recorder {
            random,
            tables,
            first: keys.start,
            keys: keys.end,
            hot,
            is_site: false,
            savepoints: false,
            next_version,
            reads: Vec::new(),
            own_changes: BTreeMap::new(),
            written: Vec::new(),
        }
    }

    /// Observations of other transactions' rows, the last change of each key, and all versions that
    /// it wrote.
    #[allow(clippy::type_complexity, reason = "the three lists of an entry")]
    pub(super) fn end(self) -> (Vec<(u64, Seen)>, Vec<(u64, Change)>, Vec<(u64, u64)>) {
        let writes = self.changes();
        (self.reads, writes, self.written)
    }

    fn version(&mut self) -> u64 {
        *self.next_version += 1;
        *self.next_version
    }

    /// Records an observation, unless it agrees with the transaction's own change of the key.
    fn observe(&mut self, key: u64, seen: Seen) {
        let Some((_, own)) = self.own_changes.get(&key) else {
            self.reads.push((key, seen));
            return;
        };
        let fits = match seen {
            Seen::Absent => own.is_none(),
            Seen::Present => own.is_some(),
            Seen::Version(version) => own.is_some_and(|(its, _)| its == version),
            Seen::NotTagged(tag) => own.is_none_or(|(_, its)| its != tag),
        };
        // An optimistic transaction that is bound to abort may see a contradiction. If it commits
        // nevertheless, the checker reports the contradiction.
        if !fits {
            self.reads.push((key, Seen::Version(UNEXPLAINED)));
        }
    }

    fn record_change(&mut self, key: u64, was_there: bool, now: Option<(u64, u64)>) {
        self.own_changes.entry(key).or_insert((was_there, None)).1 = now;
        self.written.extend(now.map(|(version, _)| (key, version)));
    }

    fn changes(&self) -> Vec<(u64, Change)> {
        #[allow(clippy::type_complexity, reason = "an entry of the map")]
        let change = |(key, (was, now)): (&u64, &(bool, Option<(u64, u64)>))| match (was, now) {
            (false, Some((version, tag))) => Some((*key, Change::Insert { version: *version, tag: *tag })),
            (true, Some((version, tag))) => Some((*key, Change::Update { version: *version, tag: *tag })),
            (true, None) => Some((*key, Change::Delete)),
            (false, None) => None,
        };
        self.own_changes.iter().filter_map(change).collect()
    }

    /// Runs a random transaction.
    pub(super) fn run<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        for _ in 0..2 + self.random.below(3) {
            self.step(t)?;
        }
        if self.chance(5) { Err(Abort::RollBack) } else { Ok(()) }
    }

    fn step<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        if self.is_partly() {
            return self.partly(t, Self::step);
        }
        let key = self.key();
        match self.random.below(17) {
            0 => self.read(t, key),
            1 | 2 => self.update(t, key),
            3 => self.insert(t, key),
            4 => self.delete(t, key),
            5 | 6 => self.scan(t, self.tables.items),
            7 => self.scan_tag(t),
            8 => self.replace(t, key),
            9 => self.delete_and_insert(t, key),
            10 => self.find_mark(t, key),
            11 if self.chance(40) => self.sweep(t, key),
            12 => self.insert_run(t, self.tables.items, key),
            13 | 14 => self.line(t, key),
            _ => self.cell(t, key / 2),
        }
    }

    /// Draws whether operations follow that may be rolled back together.
    fn is_partly(&mut self) -> bool {
        self.savepoints && self.chance(PARTLY_PERCENT)
    }

    /// Runs operations behind a savepoint, and rolls back to it now and then, and always after an
    /// error that this cures, such as a duplicate key. What was read counts in any case.
    fn partly<T: Verbs>(
        &mut self,
        t: &mut T,
        step: fn(&mut Self, &mut T) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let Some(verbs) = t.untyped() else { return Ok(()) };
        let savepoint = verbs.savepoint()?;
        let before = self.own_changes.clone();
        let steps = 1 + self.random.below(3);
        let done = (0..steps).try_for_each(|_| step(self, t));
        if done.as_ref().is_err_and(|abort| !abort.ends_at_savepoint()) {
            return done;
        }
        let rolls_back = self.chance(60) || done.is_err();
        let Some(verbs) = t.untyped() else { return Ok(()) };
        if rolls_back {
            verbs.roll_back_to(savepoint)?;
            self.own_changes = before;
        }
        if self.chance(50) { verbs.release(savepoint) } else { Ok(()) }
    }

    /// Runs random operations within a site, whose rows the secondary indexes cover only in part.
    /// No key is inserted blindly: a duplicate would end the transaction, and its observations
    /// would be lost.
    pub(super) fn visit<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        let steps = 1 + self.random.below(3);
        (0..steps).try_for_each(|_| self.step_of_visit(t))
    }

    fn step_of_visit<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        if self.is_partly() {
            return self.partly(t, Self::step_of_visit);
        }
        let key = self.key();
        match self.random.below(12) {
            0 | 1 => self.read(t, key),
            2 | 3 => self.update(t, key),
            4 => self.insert(t, key),
            5 => self.delete(t, key),
            6 | 7 => self.scan(t, self.tables.items),
            8 => self.replace(t, key),
            9 => self.delete_and_insert(t, key),
            10 if self.chance(20) => self.sweep(t, key),
            _ => self.cell(t, key),
        }
    }

    /// Runs random reads within a site.
    pub(super) fn visit_read_only<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        for _ in 0..1 + self.random.below(3) {
            let key = self.key();
            match self.random.below(3) {
                0 => self.read(t, key)?,
                1 => self.scan(t, self.tables.items)?,
                _ => self.read_cell(t, key)?,
            }
        }
        Ok(())
    }

    /// The stored key of a cell.
    fn cell_id(&self, key: u64) -> u64 {
        if self.is_site { stored(key) } else { key }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.chance(percent)
    }

    /// Runs a random transaction that only reads.
    pub(super) fn run_read_only<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        for _ in 0..1 + self.random.below(4) {
            let key = self.key();
            match self.random.below(6) {
                0 => self.read(t, key)?,
                1 => self.scan(t, self.tables.items)?,
                2 => self.scan_tag(t)?,
                3 => self.find_mark(t, key)?,
                4 => self.scan(t, self.lines())?,
                _ => self.read_cell(t, key / 2)?,
            }
        }
        Ok(())
    }

    fn read_cell<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let Some(cell) = t.find(self.tables.cells.primary(), &self.cell_id(key), Intent::Read)? else {
            self.observe(CELLS + key, Seen::Absent);
            return Ok(());
        };
        let row = t.row(cell)?;
        assert!(row.copies == [row.version; 8], "a torn row: {row:?}");
        self.observe(CELLS + key, Seen::Version(row.version));
        Ok(())
    }

    fn key(&mut self) -> u64 {
        let range = if self.chance(80) { self.hot.clone() } else { self.first..self.keys };
        let key = range.start + self.random.below(range.end - range.start);
        key.min(self.keys - 1)
    }

    /// Deletes or inserts all keys of a range: leaves become empty, or are split.
    fn sweep<T: Verbs>(&mut self, t: &mut T, first: u64) -> Result<(), Abort> {
        let end = (first + 1 + self.random.below((self.keys - self.first) / 4)).min(self.keys);
        let deletes = self.chance(60);
        for key in first..end {
            if deletes {
                self.delete(t, key)?;
            } else if t.find(self.tables.items.primary(), &stored(key), Intent::Read)?.is_some() {
                self.observe(key, Seen::Present);
            } else {
                self.insert(t, key)?;
            }
        }
        Ok(())
    }

    fn read<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        if self.chance(40) {
            let row = unnamed::read(t, self.tables.items, stored(key))?;
            assert!(row.iter().all(|row| row.is_whole() && row.id == stored(key)), "a torn row: {row:?}");
            self.observe(key, row.map_or(Seen::Absent, |row| Seen::Version(row.version)));
            return Ok(());
        }
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), Intent::Read)? else {
            self.observe(key, Seen::Absent);
            return Ok(());
        };
        if self.chance(20) {
            self.observe(key, Seen::Present);
            return Ok(());
        }
        let row = t.row(item)?;
        assert!(row.is_whole() && row.id == stored(key), "a torn row: {row:?}");
        self.observe(key, Seen::Version(row.version));
        Ok(())
    }

    /// Writes a new version, after a read or blindly.
    fn update<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let intent = if self.chance(50) { Intent::Write } else { Intent::Read };
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), intent)? else {
            self.observe(key, Seen::Absent);
            return Ok(());
        };
        let old = if self.chance(70) {
            let old = t.get(item, Item::VERSION)?;
            self.observe(key, Seen::Version(old));
            old
        } else {
            self.observe(key, Seen::Present);
            0
        };
        let tag = t.get(item, Item::TAG)?;
        let version = self.version();
        t.put(item, Item::VERSION, &version)?;
        t.put(item, Item::COPIES, &[version; 8])?;
        assert!(old != version && t.get(item, Item::VERSION)? == version);
        self.record_change(key, true, Some((version, tag)));
        Ok(())
    }

    /// Inserts, after a check of the key or blindly. A duplicate key ends the transaction.
    fn insert<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let checks = self.is_site || self.chance(80);
        if checks && t.find(self.tables.items.primary(), &stored(key), Intent::Read)?.is_some() {
            self.observe(key, Seen::Present);
            return Ok(());
        }
        let version = self.version();
        let tag = self.random.below(TAGS);
        match t.insert(self.tables.items, &Item::make(key, tag, version)) {
            Ok(()) => {
                self.observe(key, Seen::Absent);
                self.record_change(key, false, Some((version, tag)));
                Ok(())
            }
            Err(abort) => {
                if matches!(abort, Abort::Duplicate { .. }) {
                    self.observe(key, Seen::Present);
                }
                Err(abort)
            }
        }
    }

    /// Inserts several rows at once whose keys follow each other, after a check of the keys or
    /// blindly: existing rows are left out, or end the transaction.
    fn insert_run<T: Verbs, R: Ordered>(
        &mut self,
        t: &mut T,
        table: Table<R>,
        key: u64,
    ) -> Result<(), Abort> {
        let end = (key + 2 + self.random.below(3)).min(self.keys);
        let checks = self.chance(80);
        let mut run = Vec::new();
        for key in key..end {
            if checks && t.find(table.primary(), &stored(key), Intent::Read)?.is_some() {
                self.observe(R::NAMES + key, Seen::Present);
            } else {
                run.push((key, self.version(), self.random.below(TAGS)));
            }
        }
        let rows = run.iter().map(|(key, version, tag)| R::make(*key, *tag, *version));
        if let Err(abort) = t.insert_all(table, rows) {
            // The first of them may have been inserted.
            self.written.extend(run.iter().map(|(key, version, _)| (R::NAMES + key, *version)));
            return Err(abort);
        }
        for (key, version, tag) in run {
            self.observe(R::NAMES + key, Seen::Absent);
            self.record_change(R::NAMES + key, false, Some((version, tag)));
        }
        Ok(())
    }

    /// The table of lines.
    fn lines(&self) -> Table<Line> {
        self.tables.lines.expect("histories of one database have lines")
    }

    /// A random operation on the table that has a primary index only.
    fn line<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let lines = self.lines();
        let name = Line::NAMES + key;
        match self.random.below(4) {
            0 => match t.find(lines.primary(), &stored(key), Intent::Write)? {
                Some(line) => {
                    self.observe(name, Seen::Present);
                    t.delete(line)?;
                    self.record_change(name, true, None);
                }
                None => self.observe(name, Seen::Absent),
            },
            1 => self.scan(t, lines)?,
            _ => self.insert_run(t, lines, key)?,
        }
        Ok(())
    }

    fn delete<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), Intent::Write)? else {
            self.observe(key, Seen::Absent);
            return Ok(());
        };
        self.observe(key, Seen::Present);
        t.delete(item)?;
        self.record_change(key, true, None);
        let again = t.find(self.tables.items.primary(), &stored(key), Intent::Read)?;
        self.observe(key, if again.is_some() { Seen::Present } else { Seen::Absent });
        Ok(())
    }

    /// Changes the tag of an item, hence its place in the secondary index.
    fn replace<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let Some(item) = t.find(self.tables.items.primary(), &stored(key), Intent::Write)? else {
            self.observe(key, Seen::Absent);
            return Ok(());
        };
        self.observe(key, Seen::Present);
        let version = self.version();
        let tag = self.random.below(TAGS);
        t.replace(item, &Item::make(key, tag, version))?;
        self.record_change(key, true, Some((version, tag)));
        self.read(t, key)
    }

    fn delete_and_insert<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        self.delete(t, key)?;
        if self.chance(80) {
            self.insert(t, key)?;
        }
        if self.chance(20) {
            self.delete(t, key)?;
        }
        Ok(())
    }

    /// Scans a range of rows, or the first few of it.
    fn scan<T: Verbs, R: Ordered>(&mut self, t: &mut T, table: Table<R>) -> Result<(), Abort> {
        let first = self.key();
        let last = first + self.random.below((self.keys - first).min(24));
        let forward = self.chance(50);
        let direction = if forward { Direction::Forward } else { Direction::Reverse };
        let most = if self.chance(40) { 1 + self.random.below(3) } else { u64::MAX };
        let mut found = Vec::new();
        let mut show = |row: R| {
            assert!(row.is_whole(), "a torn row: {row:?}");
            found.push((named(row.key()), row.version()));
            if found.len() as u64 >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let low = stored(first);
        let high = stored(last);
        if self.chance(50) {
            unnamed::scan(t, table, low, high, direction, &mut show)?;
        } else {
            t.scan(table.primary(), &low, &high, direction, Intent::Read, &mut |t, item| {
                Ok(show(t.row(item)?))
            })?;
        }
        assert!(found.windows(2).all(|pair| (pair[0].0 < pair[1].0) == forward), "unordered: {found:?}");
        // The scan covered the range up to the last row that it returned.
        let (mut low, mut high) = (first, last);
        if let (true, Some((end, _))) = (found.len() as u64 >= most, found.last()) {
            if forward { high = *end } else { low = *end }
        }
        for key in low..=high {
            let seen = found.iter().find(|(its, _)| *its == key);
            self.observe(R::NAMES + key, seen.map_or(Seen::Absent, |(_, version)| Seen::Version(*version)));
        }
        Ok(())
    }

    /// Scans all items with a tag.
    fn scan_tag<T: Verbs>(&mut self, t: &mut T) -> Result<(), Abort> {
        let tag = self.random.below(TAGS);
        let direction = if self.chance(50) { Direction::Forward } else { Direction::Reverse };
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
                assert!(row.tag == tag && row.is_whole(), "a torn row: {row:?}");
                assert!(found.insert(named(row.id), row.version).is_none(), "twice in a scan: {row:?}");
                Ok(ControlFlow::Continue(()))
            },
        )?;
        for key in 0..self.keys {
            let seen = found.get(&key);
            self.observe(key, seen.map_or(Seen::NotTagged(tag), |version| Seen::Version(*version)));
        }
        Ok(())
    }

    /// Finds an item by its unique mark, which encodes key and tag.
    fn find_mark<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let tag = self.random.below(TAGS);
        let index = self.tables.items.index(Item::BY_MARK);
        let Some(item) = t.find(index, &mark(key, tag), Intent::Read)? else {
            self.observe(key, Seen::NotTagged(tag));
            return Ok(());
        };
        let row = t.row(item)?;
        assert!(row.id == stored(key) && row.tag == tag && row.is_whole(), "a torn row: {row:?}");
        self.observe(key, Seen::Version(row.version));
        Ok(())
    }

    /// A random operation on the table of the hash index.
    fn cell<T: Verbs>(&mut self, t: &mut T, key: u64) -> Result<(), Abort> {
        let cells = self.tables.cells;
        let choice = self.random.below(4);
        let intent = if choice == 0 { Intent::Read } else { Intent::Write };
        let name = CELLS + key;
        let id = self.cell_id(key);
        let version = self.version();
        match t.find(cells.primary(), &id, intent)? {
            Some(cell) if choice < 3 => {
                let old = t.row(cell)?;
                assert!(old.copies == [old.version; 8], "a torn row: {old:?}");
                self.observe(name, Seen::Version(old.version));
                if choice == 1 {
                    t.put(cell, Cell::VERSION, &version)?;
                    t.put(cell, Cell::COPIES, &[version; 8])?;
                    self.record_change(name, true, Some((version, 0)));
                } else if choice == 2 {
                    t.delete(cell)?;
                    self.record_change(name, true, None);
                }
            }
            Some(cell) => {
                self.observe(name, Seen::Present);
                t.replace(cell, &Cell { id, version, copies: [version; 8] })?;
                self.record_change(name, true, Some((version, 0)));
            }
            None => {
                self.observe(name, Seen::Absent);
                if choice > 1 {
                    t.insert(cells, &Cell { id, version, copies: [version; 8] })?;
                    self.record_change(name, false, Some((version, 0)));
                }
            }
        }
        Ok(())
    }
}
