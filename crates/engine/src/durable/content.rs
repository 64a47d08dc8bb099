//! Checks of the rows in a directory, as far as they are possible without the row types.
//!
//! Log and checkpoint are repeated in ordinary sorted lists, by nothing but the
//! [description](boundary::directory::description) of the tables, so that the check shares little
//! with the recovery that it judges. Every change must be readable. A row that is inserted must not
//! be there, and a row that is changed or deleted must be there. No two rows that are there in the
//! end may have the same key in a unique index, since indexes are made of rows.
//!
//! A checkpoint has each row as the row was at some moment between two of its changes: after all
//! changes of epochs up to the checkpoint's epoch, and before all changes of epochs after the
//! checkpoint's end. So the first change that counts shows if a row was there when the
//! checkpoint began. The checkpoint must have a row that was there all that time, and must not have
//! a row that was never there.
//!
//! All rows and all changes are in memory meanwhile, once.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::path::Path;

use boundary::directory::description::{Description, DescriptionError};
use boundary::directory::undecided::Undecided as UndecidedTables;
use boundary::{Decision, GlobalId, PartOf};
use platform::files::Files;
use redo_log::{Examiner, LogError, Record, Survey, examine};
use schema::{IndexDescription, KeyColumns, TableDescription};

use super::global::{CommittedAt, GlobalRecords, Item};
use super::layout::{Layout, UntypedChange, read_head};

/// Rows between two reports of progress.
const ROWS_PER_REPORT: u64 = 1 << 16;

/// Why a database is not whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The files cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The description of the tables cannot be read.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The bytes mean nothing, or are changes of a table that is not known.
    #[error(
        "record {number} of the {place} is no change of the tables that the database has; restore a backup"
    )]
    Unreadable {
        /// Log or checkpoint.
        place: &'static str,
        /// Counted from 1.
        number: u64,
    },
    /// A part of a transaction over several databases commits, and nothing says what it changes.
    #[error("a part of transaction {0} commits that was never prepared; restore a backup")]
    NeverPrepared(GlobalId),
    /// The changes of a row contradict each other.
    #[error("{table}: row {key}: {what}; restore a backup")]
    Row {
        /// The table.
        table: String,
        /// Its primary key.
        key: String,
        /// The fault.
        what: &'static str,
    },
    /// Two rows have the same key in a unique index.
    #[error("{table}: two rows have {key} in unique index {index}; restore a backup")]
    NotUnique {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The key.
        key: String,
    },
}

/// The content of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Its files.
    pub survey: Survey,
    /// Its tables.
    pub description: Description,
    /// The tables that were not dropped, and how many rows they have.
    pub rows: Vec<(String, u64)>,
    /// Parts of transactions over several databases that are in doubt. What they would change is
    /// not counted.
    pub in_doubt: Vec<PartOf>,
    /// Transactions over several databases that are decided to commit, and not forgotten.
    pub decisions: Vec<Decision>,
}

/// Reads the database in a directory, which is locked meanwhile, and verifies everything.
/// `progress` is called now and then with the number of rows and changes that are judged, and the
/// number of all.
///
/// # Errors
/// The first thing that is wrong.
pub fn check<P: Files>(
    c: P::Core,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Checked, ContentError> {
    let mut content = Content::default();
    let survey = examine::<P, _>(c, path, &mut content)?;
    let (in_doubt, decisions) = content.end_parts()?;
    let rows = content.judge(progress)?;
    Ok(Checked { survey, description: content.description, rows, in_doubt, decisions })
}

/// The outline of a directory.
pub struct Outline {
    /// Its files.
    pub survey: Survey,
    /// Parts of transactions over several databases that are in doubt.
    pub in_doubt: Vec<PartOf>,
    /// Transactions over several databases that are decided to commit, and not forgotten.
    pub decisions: Vec<Decision>,
}

/// Reads the database in a directory, which is locked meanwhile, without its rows.
///
/// # Errors
/// There is no database, or it is in use, or damaged.
pub fn outline<P: Files>(c: P::Core, path: &Path) -> Result<Outline, ContentError> {
    let mut items = Items::default();
    let survey = examine::<P, _>(c, path, &mut items)?;
    let state = items.0.state().map_err(ContentError::NeverPrepared)?;
    let in_doubt = state.in_doubt.into_iter().map(|(part, ())| part).collect();
    Ok(Outline { survey, in_doubt, decisions: state.decisions })
}

/// Reads the description of the tables that counts in a directory, whose manifest has these bytes.
/// The directory is locked while it is read, if a transaction that changed tables was under way
/// when the database was open last.
///
/// # Errors
/// As [`outline`]; the description cannot be read.
pub fn decided_description<P: Files>(
    c: P::Core,
    path: &Path,
    extra: &[u8],
) -> Result<Description, ContentError> {
    let Some(both) = UndecidedTables::decode(extra) else { return Ok(Description::decode(extra)?) };
    let decisions = outline::<P>(c, path)?.decisions;
    let has_committed = decisions.iter().any(|decision| decision.global == both.transaction);
    Ok(Description::decode(if has_committed { both.after } else { both.before })?)
}

/// Items of records about transactions over several databases, without the changes. Unreadable
/// records are passed over.
#[derive(Default)]
struct Items(GlobalRecords<()>);

impl Examiner for Items {
    type Error = ContentError;

    fn begin(&mut self, _: &Survey) -> Result<(), ContentError> {
        Ok(())
    }

    fn row(&mut self, _: &[u8]) -> Result<(), ContentError> {
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), ContentError> {
        let mut body = record.body;
        while let Ok(Some(item)) = Item::take(&mut body) {
            self.0.note(item, record.stamp, record.epoch, || ());
        }
        Ok(())
    }
}

/// A row of the checkpoint, or a change.
struct Entry {
    /// The table that has the row now.
    table: u32,
    /// By which id the change names the table.
    form: u32,
    copy: bool,
    /// Hash of the key: rows are sorted by the hash, since nothing depends on the order of rows.
    hash: u64,
    /// Where the key is; the change is behind the key.
    at: usize,
    stamp: u64,
    epoch: u64,
}

/// All that was read.
#[derive(Default)]
struct Content {
    description: Description,
    /// By id: how changes are read, and the table that has the rows now, if there is one; `None`
    /// where no table is known.
    layouts: Vec<Option<(Layout, Option<u32>)>>,
    /// The last epoch that the checkpoint may have changes of, if there is one.
    copied_to: Option<u64>,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    rows: u64,
    records: u64,
    /// Where in `parts` the changes of a prepared part are.
    global: GlobalRecords<Range<usize>>,
    parts: Vec<u8>,
}

impl Examiner for Content {
    type Error = ContentError;

    fn begin(&mut self, survey: &Survey) -> Result<(), ContentError> {
        self.description = Description::decode(&survey.extra)?;
        self.copied_to = survey.checkpoint.map(|(checkpoint, _)| checkpoint.end);
        for table in &self.description.tables {
            self.layouts.resize(table.id as usize, None);
            let now = if table.dropped.is_some() { table.continued_by } else { Some(table.id) };
            self.layouts.push(Some((Layout::of(&table.table), now)));
        }
        // Tables of a transaction that may have committed: its other rows are judged.
        for table in Description::decode_all(&survey.extra)?.into_iter().flat_map(|all| all.tables) {
            if table.id as usize >= self.layouts.len() {
                self.layouts.resize(table.id as usize, None);
                self.layouts.push(Some((Layout::of(&table.table), None)));
            }
        }
        Ok(())
    }

    fn row(&mut self, body: &[u8]) -> Result<(), ContentError> {
        self.rows += 1;
        let from = self.entries.len();
        let remembered = self.remember(body, None);
        let is_row = |content: &Self| {
            let mut copies = content.entries[from..].iter();
            copies.all(|copy| matches!(content.change(copy), Some(UntypedChange::Insert { .. })))
        };
        match remembered.filter(|()| is_row(self)) {
            Some(()) => Ok(()),
            None => Err(ContentError::Unreadable { place: "checkpoint", number: self.rows }),
        }
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), ContentError> {
        self.records += 1;
        let remembered = self.remember_record(record);
        remembered.ok_or(ContentError::Unreadable { place: "log", number: self.records })
    }
}

/// Parts in doubt, and decisions.
type Undecided = (Vec<PartOf>, Vec<Decision>);

impl Content {
    /// Remembers what a record of the log says.
    fn remember_record(&mut self, record: &Record<'_>) -> Option<()> {
        let (mut body, mut is_part) = (record.body, false);
        while let Some(item) = Item::take(&mut body).ok()? {
            is_part |= matches!(item, Item::Prepare(_));
            let parts = &mut self.parts;
            self.global.note(item, record.stamp, record.epoch, || {
                let from = parts.len();
                parts.extend_from_slice(body);
                from..parts.len()
            });
        }
        if is_part { Some(()) } else { self.remember(body, Some((record.stamp, record.epoch))) }
    }

    /// Remembers the changes of parts that have committed; gives what is left.
    fn end_parts(&mut self) -> Result<Undecided, ContentError> {
        let state = std::mem::take(&mut self.global).state().map_err(ContentError::NeverPrepared)?;
        let parts = std::mem::take(&mut self.parts);
        for (place, CommittedAt { stamp, epoch }) in state.committed {
            let remembered = self.remember(&parts[place], Some((stamp, epoch)));
            remembered.ok_or(ContentError::Unreadable { place: "log", number: self.records })?;
        }
        Ok((state.in_doubt.into_iter().map(|(part, _)| part).collect(), state.decisions))
    }

    /// Remembers what a record says; records without a stamp are copies of rows.
    fn remember(&mut self, mut body: &[u8], stamp: Option<(u64, u64)>) -> Option<()> {
        while !body.is_empty() {
            let before = body;
            let (id, kind) = read_head(&mut body)?;
            let (layout, now) = self.layouts.get(id as usize)?.as_ref()?;
            let change = layout.read_change(kind, &mut body)?;
            let Some(table) = *now else { continue };
            let at = self.bytes.len();
            match change {
                UntypedChange::Insert { fixed, tail } => layout.put_key(fixed, tail, &mut self.bytes),
                UntypedChange::Update { key, .. } | UntypedChange::Delete { key } => {
                    self.bytes.extend_from_slice(key);
                }
            }
            let mut hasher = DefaultHasher::new();
            hasher.write(&self.bytes[at..]);
            let hash = hasher.finish();
            self.bytes.extend_from_slice(&before[..before.len() - body.len()]);
            let (copy, (stamp, epoch)) = (stamp.is_none(), stamp.unwrap_or_default());
            self.entries.push(Entry { table, form: id, copy, hash, at, stamp, epoch });
        }
        Some(())
    }

    fn layout(&self, entry: &Entry) -> Option<&Layout> {
        self.layouts.get(entry.form as usize)?.as_ref().map(|(layout, _)| layout)
    }

    /// The key of a change, and the change.
    fn parts(&self, entry: &Entry) -> Option<(&[u8], &[u8])> {
        let mut rest = &self.bytes[entry.at..];
        Some((self.layout(entry)?.take_key(&mut rest)?, rest))
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        self.parts(entry).map_or(&[], |(key, _)| key)
    }

    fn change(&self, entry: &Entry) -> Option<UntypedChange<'_>> {
        let (_, mut rest) = self.parts(entry)?;
        let (_, kind) = read_head(&mut rest)?;
        self.layout(entry)?.read_change(kind, &mut rest)
    }

    /// Judges everything; gives how many rows each table has.
    fn judge(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<(String, u64)>, ContentError> {
        let mut entries = std::mem::take(&mut self.entries);
        progress(0, entries.len() as u64);
        let same = |one: &Entry, other: &Entry| {
            let by_hash = (one.table, one.hash).cmp(&(other.table, other.hash));
            by_hash.then_with(|| self.key(one).cmp(self.key(other)))
        };
        // The copy comes first; among the changes of one transaction, the change that was read
        // first.
        let place = |entry: &Entry| (!entry.copy, entry.stamp, entry.at);
        entries.sort_unstable_by(|one, other| same(one, other).then_with(|| place(one).cmp(&place(other))));
        let mut rows = Vec::new();
        let (mut done, mut reported) = (0, 0);
        let mut rest = &entries[..];
        for present in self.description.present() {
            let table = &present.table;
            let (own, others) = rest.split_at(rest.partition_point(|entry| entry.table <= present.id));
            rest = others;
            let mut keys = UniqueKeys::new(table);
            let mut count = 0;
            for group in own.chunk_by(|one, other| same(one, other).is_eq()) {
                let key = || {
                    let (mut fixed, mut tail) = (Vec::new(), Vec::new());
                    KeyColumns::of(table).row(self.key(&group[0]), &mut fixed, &mut tail);
                    table.format_columns(&table.indexes()[0].columns, &fixed, &tail)
                };
                let row = self.outcome(group).map_err(|what| ContentError::Row {
                    table: table.name().to_owned(),
                    key: key(),
                    what,
                })?;
                count += u64::from(row.is_some());
                if let Some(row) = row {
                    let unreadable = "its bytes are none of a row";
                    let row = self.in_form(row, present.id).ok_or_else(|| ContentError::Row {
                        table: table.name().to_owned(),
                        key: key(),
                        what: unreadable,
                    })?;
                    keys.add(&row.fixed, &row.tail)?;
                }
                done += group.len() as u64;
                if done - reported >= ROWS_PER_REPORT {
                    reported = done;
                    progress(done, entries.len() as u64);
                }
            }
            rows.push((table.name().to_owned(), count));
        }
        Ok(rows)
    }

    /// A row in the end, if the row is there; `group` is its copy, if the checkpoint has one, and
    /// its changes.
    fn outcome(&self, group: &[Entry]) -> Result<Option<Image>, &'static str> {
        let (copies, changes) = group.split_at(group.partition_point(|entry| entry.copy));
        if copies.len() > 1 {
            return Err("the checkpoint has it twice");
        }
        let mut row: Option<Image> = None;
        for entry in copies {
            row = self.apply(row, entry);
        }
        let first = changes.first().and_then(|entry| self.change(entry));
        let mut present = match first {
            Some(UntypedChange::Insert { .. }) => false,
            Some(_) => self.copied_to.is_some(),
            None => true,
        };
        // Whether the checkpoint may have found the row absent, and whether there.
        let mut possible = [!present, present];
        let end = self.copied_to.unwrap_or(0);
        let copied = changes.iter().rposition(|entry| entry.epoch <= end).map_or(0, |last| last + 1);
        for (number, entry) in changes.iter().enumerate() {
            match (self.change(entry), present) {
                (Some(UntypedChange::Insert { .. }), true) => {
                    return Err("it is inserted, and is there already");
                }
                (Some(UntypedChange::Update { .. }), false) => return Err("it changes, and is not there"),
                (Some(UntypedChange::Delete { .. }), false) => return Err("it is deleted, and is not there"),
                (change, _) => present = !matches!(change, Some(UntypedChange::Delete { .. })),
            }
            row = self.apply(row, entry);
            if number < copied {
                possible[usize::from(present)] = true;
            }
        }
        match (self.copied_to.is_some(), copies.len()) {
            (true, 0) if !possible[0] => Err("it changes, and the checkpoint does not have it"),
            (true, 1) if !possible[1] => Err("the checkpoint has it, and it was not there then"),
            _ => Ok(row.filter(|_| present)),
        }
    }

    /// A row after a change.
    fn apply(&self, row: Option<Image>, entry: &Entry) -> Option<Image> {
        match (self.change(entry)?, row) {
            (UntypedChange::Insert { fixed, tail }, _) => {
                Some(Image { form: entry.form, fixed: fixed.to_vec(), tail: tail.to_vec() })
            }
            (UntypedChange::Update { changes, tail, .. }, Some(row)) => {
                let mut row = self.in_form(row, entry.form)?;
                for (offset, bytes) in changes {
                    row.fixed[offset..offset + bytes.len()].copy_from_slice(bytes);
                }
                row.tail = tail.map_or(row.tail, <[u8]>::to_vec);
                Some(row)
            }
            _ => None,
        }
    }

    /// A row as the table with this id has it; `None` if the row cannot be read.
    fn in_form(&self, row: Image, form: u32) -> Option<Image> {
        if row.form == form {
            return Some(row);
        }
        let table =
            |id| self.description.tables.iter().find(|table| table.id == id).map(|found| &found.table);
        let (fixed, tail) = table(row.form)?.convert(table(form)?, &row.fixed, &row.tail, None).ok()?;
        Some(Image { form, fixed, tail })
    }
}

/// A row at some time.
struct Image {
    /// The id of the table that it is a row of.
    form: u32,
    fixed: Vec<u8>,
    tail: Vec<u8>,
}

/// An index, and its keys so far.
struct UniqueKey {
    index: usize,
    keys: BTreeSet<Box<[u64]>>,
}

/// The keys of a table's rows in its unique indexes.
struct UniqueKeys<'d> {
    table: &'d TableDescription,
    indexes: Vec<UniqueKey>,
}

impl<'d> UniqueKeys<'d> {
    fn new(table: &'d TableDescription) -> Self {
        let is_unique = |(_, index): &(usize, &IndexDescription)| index.unique;
        let unique = table.indexes().iter().enumerate().skip(1).filter(is_unique);
        let indexes = unique.map(|(index, _)| UniqueKey { index, keys: BTreeSet::new() });
        UniqueKeys { table, indexes: indexes.collect() }
    }

    fn add(&mut self, fixed: &[u8], tail: &[u8]) -> Result<(), ContentError> {
        for UniqueKey { index, keys } in &mut self.indexes {
            if !keys.insert(self.table.key_of(*index, fixed, tail).significant_words().into()) {
                let index = &self.table.indexes()[*index];
                return Err(ContentError::NotUnique {
                    table: self.table.name().to_owned(),
                    index: index.name.clone(),
                    key: self.table.format_columns(&index.columns, fixed, tail),
                });
            }
        }
        Ok(())
    }
}
