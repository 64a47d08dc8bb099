//! Fills an empty database with what a checkpoint and a log say.
//!
//! A checkpoint has every row as it was at a moment of its own after the log's first record that counts, and the log has all
//! changes since, as values: of one row's changes the later one has the larger stamp, and repeating those that a copy has
//! already changes nothing in the end. So rows are independent of each other: each worker takes the changes of some rows,
//! brings those of each into order, and makes one change of them.
//!
//! Two rows of a checkpoint may have the same unique key, one having gone before the other came. So the rows that the log
//! inserts or deletes are not taken from the checkpoint: what is left are rows that were there all the time, which no
//! others of the end have keys of. These are inserted as they are after all their changes: no index has to follow a change, not
//! even one that was made over columns that no index was made over when they changed. So what is inserted is what is there
//! in the end, and two rows with the same unique key are an error.
//!
//! Stages, each by all workers at the same time: records are divided into changes, which are given to their workers; these
//! sort them; the checkpoint's rows are inserted, with their changes; rows of the log are inserted. Log and checkpoint are in memory
//! meanwhile.

use std::borrow::Cow;

use cc::{Abort, Scheme};
use platform::{Place, Platform};
use storage::Latched;
use storage::log::Record;

use super::codec::{Change, Codecs, Decoder, Unreadable};
use super::{OpenError, SchemaError};
use crate::database::{Database, Ending, Session};
use crate::transaction::Bounds;
use crate::transaction::erased::ErasedVerbs;

/// Rows that are changed in one transaction.
const ROWS_AT_ONCE: usize = 32;

/// What a database was filled with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeated {
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Records of the log.
    pub records: u64,
}

/// One change of a row.
struct Entry<'a> {
    table: u16,
    /// The worker that found it, and where in its list of keys the key is.
    finder: u16,
    key_at: u32,
    /// The first word of the key.
    key_start: u64,
    stamp: u64,
    /// Place among the changes with this stamp: those of one transaction.
    sequence: u64,
    change: &'a [u8],
}

/// What one worker has found for the others.
#[derive(Default)]
struct Findings<'a> {
    keys: Vec<u64>,
    /// By worker.
    entries: Vec<Vec<Entry<'a>>>,
    count: u64,
}

impl<'a> Findings<'a> {
    fn new(workers: usize) -> Self {
        Findings { keys: Vec::new(), entries: (0..workers).map(|_| Vec::new()).collect(), count: 0 }
    }

    fn push(
        &mut self,
        finder: usize,
        (table, key): (usize, &[u64]),
        (stamp, sequence): (u64, u64),
        change: &'a [u8],
    ) {
        let worker = worker_for(table, key, self.entries.len());
        let entry = Entry {
            table: table as u16,
            finder: finder as u16,
            key_at: self.keys.len() as u32,
            key_start: key[0],
            stamp,
            sequence,
            change,
        };
        self.keys.extend_from_slice(key);
        self.entries[worker].push(entry);
    }
}

/// The worker that makes the changes of a row.
fn worker_for(table: usize, key: &[u64], workers: usize) -> usize {
    let mix = |hash: u64, word: &u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key.iter().fold(table as u64, mix) >> 32) as usize % workers
}

/// What is to become of one row: its changes from the first one that counts.
struct Outcome<'e, 'a> {
    table: usize,
    key: &'e [u64],
    changes: &'e [Entry<'a>],
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first change inserts it.
    Put,
    /// The checkpoint has it.
    Change,
    /// It goes.
    Delete,
}

/// A row as it is in the end.
struct Image<'a> {
    table: usize,
    fixed: Cow<'a, [u8]>,
    tail: &'a [u8],
}

/// What a worker has found in the checkpoint.
#[derive(Default)]
struct Loaded {
    rows: u64,
    /// Those of them that the log changes.
    changed: u64,
}

/// Recovery of one database.
pub(crate) struct Recovery<'r, P: Platform, S: Scheme<P>> {
    pub database: &'r Database<P, S>,
    pub codecs: &'r Codecs,
    pub places: &'r [Place],
}

impl<P: Platform, S: Scheme<P>> Recovery<'_, P, S> {
    /// Inserts the rows of the checkpoint, and repeats the records.
    pub(crate) fn run<'a>(
        &self,
        c: P::Core,
        rows: &[impl Iterator<Item = Record<'a>> + Clone + Sync],
        records: &[impl Iterator<Item = Record<'a>> + Clone + Sync],
    ) -> Result<Repeated, OpenError> {
        let workers = self.places.len();
        let found = self.on_all(c, |_, worker| self.find_changes(worker, records))?;
        let repeated = found.iter().map(|findings| findings.count).sum();
        let (mut keys, mut shares) = (Vec::new(), Vec::new());
        shares.resize_with(workers, Vec::new);
        for findings in found {
            keys.push(findings.keys);
            shares.iter_mut().zip(findings.entries).for_each(|(share, entries)| share.extend(entries));
        }
        let keys = &keys[..];
        let share = |share| Latched::<P, Vec<Entry<'a>>>::new(c, "recovery", share);
        let shares: Vec<_> = shares.into_iter().map(share).collect::<Result<_, _>>()?;
        let sorted = self.on_all(c, |c, worker| {
            let mut share = shares[worker].with(c, std::mem::take);
            share.sort_unstable_by(|one, other| {
                self.order(keys, one, other)
                    .then_with(|| (one.stamp, one.sequence).cmp(&(other.stamp, other.sequence)))
            });
            Ok(share)
        })?;
        let outcomes = self.on_all(c, |_, worker| self.outcomes(keys, &sorted[worker]))?;
        let loaded = self.on_all(c, |c, worker| self.load(c, worker, rows, &outcomes))?;
        let changed: u64 = loaded.iter().map(|loaded| loaded.changed).sum();
        let changes = outcomes.iter().flatten().filter(|outcome| outcome.kind == Kind::Change);
        if changed != changes.count() as u64 {
            return Err(OpenError::Contradiction("a row changes that is not there".into()));
        }
        self.on_all(c, |c, worker| self.make(c, &outcomes[worker]))?;
        Ok(Repeated { rows: loaded.iter().map(|loaded| loaded.rows).sum(), records: repeated })
    }

    /// Runs `body` on all workers; the first failure.
    fn on_all<T: Send>(
        &self,
        c: P::Core,
        body: impl Fn(P::Core, usize) -> Result<T, OpenError> + Sync,
    ) -> Result<Vec<T>, OpenError> {
        let results = Latched::<P, _>::new(c, "recovery", Vec::new())?;
        let worker = |c, number| {
            let result = body(c, number);
            results.with(c, |results: &mut Vec<_>| results.push((number, result)));
        };
        P::parallel(c, self.places, &worker, &mut |_| ());
        let mut results = results.with(c, std::mem::take);
        results.sort_unstable_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }

    fn session(&self, c: P::Core) -> Result<Session<'_, P, S>, OpenError> {
        let session = self.database.session(c, None, false);
        session.map_err(|error| OpenError::Contradiction(error.to_string()))
    }

    /// Inserts the rows of every so many blocks of the checkpoint, those that were there all the time.
    fn load<'a>(
        &self,
        c: P::Core,
        worker: usize,
        blocks: &[impl Iterator<Item = Record<'a>> + Clone],
        outcomes: &[Vec<Outcome<'_, 'a>>],
    ) -> Result<Loaded, OpenError> {
        let mut session = self.session(c)?;
        let (mut loaded, mut rows) = (Loaded::default(), Vec::new());
        for block in blocks.iter().skip(worker).step_by(self.places.len()) {
            let mut records = block.clone().peekable();
            while records.peek().is_some() {
                rows.clear();
                for record in records.by_ref().take(ROWS_AT_ONCE) {
                    let Some((table, change)) = Decoder::new(self.codecs, record.body).next()? else {
                        continue;
                    };
                    let Change::Insert { fixed, tail } = change else {
                        return Err(OpenError::Contradiction("a row of the checkpoint is none".into()));
                    };
                    loaded.rows += 1;
                    let codec = &self.codecs[table];
                    let key = change.key(codec);
                    let key = key.words(codec.key_words);
                    let its = &outcomes[worker_for(table, key, outcomes.len())];
                    match its.binary_search_by(|its| (its.table, its.key).cmp(&(table, key))) {
                        Err(_) => rows.push(Image { table, fixed: Cow::Borrowed(fixed), tail }),
                        Ok(place) if its[place].kind == Kind::Change => {
                            loaded.changed += 1;
                            rows.push(self.changed((table, fixed, tail), its[place].changes));
                        }
                        Ok(_) => {}
                    }
                }
                self.insert(&mut session, &rows)?;
            }
        }
        Ok(loaded)
    }

    /// A row after these changes.
    fn changed<'a>(
        &self,
        (table, fixed, tail): (usize, &'a [u8], &'a [u8]),
        entries: &[Entry<'a>],
    ) -> Image<'a> {
        let mut image = Image { table, fixed: Cow::Borrowed(fixed), tail };
        for entry in entries {
            let Ok(Change::Update { changes, tail, .. }) = self.decode(entry) else { continue };
            for (offset, bytes) in changes {
                image.fixed.to_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            image.tail = tail.unwrap_or(image.tail);
        }
        image
    }

    /// Divides the records of every so many blocks into changes.
    fn find_changes<'a>(
        &self,
        worker: usize,
        blocks: &[impl Iterator<Item = Record<'a>> + Clone],
    ) -> Result<Findings<'a>, OpenError> {
        let mut findings = Findings::new(self.places.len());
        for (number, block) in blocks.iter().enumerate().skip(worker).step_by(self.places.len()) {
            let mut sequence = (number as u64) << 32;
            for record in block.clone() {
                findings.count += 1;
                let mut decoder = Decoder::new(self.codecs, record.body);
                while let Some((table, change)) = decoder.next()? {
                    let codec = &self.codecs[table];
                    let key = change.key(codec);
                    let bytes = decoder.last();
                    sequence += 1;
                    let row = (table, key.words(codec.key_words));
                    findings.push(worker, row, (record.stamp, sequence), bytes);
                }
            }
        }
        Ok(findings)
    }

    fn key<'k>(&self, keys: &'k [Vec<u64>], entry: &Entry<'_>) -> &'k [u64] {
        let words = self.codecs[usize::from(entry.table)].key_words;
        &keys[usize::from(entry.finder)][entry.key_at as usize..][..words]
    }

    fn order(&self, keys: &[Vec<u64>], one: &Entry<'_>, other: &Entry<'_>) -> std::cmp::Ordering {
        let start = (one.table, one.key_start).cmp(&(other.table, other.key_start));
        start.then_with(|| self.key(keys, one).cmp(self.key(keys, other)))
    }

    /// What becomes of the rows, in the order of tables and keys; `entries` are in order.
    fn outcomes<'e, 'a>(
        &self,
        keys: &'e [Vec<u64>],
        entries: &'e [Entry<'a>],
    ) -> Result<Vec<Outcome<'e, 'a>>, OpenError> {
        let mut outcomes = Vec::new();
        for changes in entries.chunk_by(|one, other| self.order(keys, one, other).is_eq()) {
            let first = &changes[0];
            let mut from = (0, Kind::Change);
            for (place, entry) in changes.iter().enumerate() {
                match self.decode(entry)? {
                    Change::Insert { .. } => from = (place, Kind::Put),
                    Change::Delete { .. } => from = (place, Kind::Delete),
                    Change::Update { .. } if from.1 == Kind::Delete => {
                        let name = self.codecs[usize::from(first.table)].name;
                        let what = format!("a row of {name} changes that is not there");
                        return Err(OpenError::Contradiction(what));
                    }
                    Change::Update { .. } => {}
                }
            }
            let (table, key) = (usize::from(first.table), self.key(keys, first));
            outcomes.push(Outcome { table, key, changes: &changes[from.0..], kind: from.1 });
        }
        Ok(outcomes)
    }

    fn decode<'a>(&self, entry: &Entry<'a>) -> Result<Change<'a>, OpenError> {
        match Decoder::new(self.codecs, entry.change).next()? {
            Some((_, change)) => Ok(change),
            None => Err(Unreadable.into()),
        }
    }

    /// Inserts the rows that the log has.
    fn make(&self, c: P::Core, outcomes: &[Outcome<'_, '_>]) -> Result<(), OpenError> {
        let mut session = self.session(c)?;
        let made: Vec<_> = outcomes.iter().filter(|outcome| outcome.kind == Kind::Put).collect();
        let mut rows = Vec::new();
        for group in made.chunks(ROWS_AT_ONCE) {
            rows.clear();
            for outcome in group {
                let Some((first, others)) = outcome.changes.split_first() else { continue };
                // A row that was inserted only is taken as it is.
                let Change::Insert { fixed, tail } = self.decode(first)? else { continue };
                rows.push(self.changed((outcome.table, fixed, tail), others));
            }
            self.insert(&mut session, &rows)?;
        }
        Ok(())
    }

    /// Inserts rows in one transaction.
    fn insert(&self, session: &mut Session<'_, P, S>, rows: &[Image<'_>]) -> Result<(), OpenError> {
        let mut at = 0;
        let outcome = session.transact(&Bounds::default(), |transaction| {
            rows.iter().enumerate().try_for_each(|(number, row)| {
                at = number;
                let mut inserted = Ok(());
                (self.codecs[row.table].keys_of)(&row.fixed, row.tail, &mut |keys| {
                    inserted = ErasedVerbs::insert(transaction, row.table, keys, &row.fixed, row.tail);
                });
                inserted
            })
        });
        session.tend(P::now(session.core()));
        match outcome {
            Ok(Ending::Committed(..) | Ending::RolledBack) => Ok(()),
            Err(Abort::OutOfMemory(error)) => Err(OpenError::Memory(error)),
            Err(Abort::Duplicate { index }) => {
                let table = self.codecs[rows[at].table].name.to_owned();
                Err(SchemaError::NotUnique { table, index: index.to_owned() }.into())
            }
            Err(abort) => Err(OpenError::Contradiction(abort.to_string())),
        }
    }
}

impl From<Unreadable> for OpenError {
    fn from(_: Unreadable) -> Self {
        OpenError::Contradiction("a record is not what this version writes".into())
    }
}
