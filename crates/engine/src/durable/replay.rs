//! Fills an empty database with what a checkpoint and a log say.
//!
//! Of one row's changes the later one has the larger stamp, and a copy of a row in the checkpoint has the stamp of its last
//! change. So rows are independent of each other: each worker takes the changes of some rows, brings those of each into order,
//! leaves out what the copy has already, and makes one change of what is left. All rows that go, go before others come: what
//! comes is a part of the state that was, in which no two rows have the same unique key.
//!
//! Stages, each by all workers at the same time: the checkpoint's rows are inserted; records are divided into changes, which are
//! given to their workers; rows go; rows come and change. Log and checkpoint are in memory meanwhile.

use cc::{Abort, Scheme};
use platform::{Intent, Place, Platform};
use storage::Latched;
use storage::log::Record;

use super::OpenError;
use super::codec::{Change, Decoder, TableCodec};
use crate::database::{Database, Ending, Session};
use crate::transaction::erased::ErasedVerbs;
use crate::transaction::{Bounds, Transaction};

/// Rows that are changed in one transaction.
const ROWS_AT_ONCE: usize = 32;
/// A copy in the checkpoint comes after the changes that it has.
const COPY: u64 = u64::MAX;

/// What a database was filled with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeated {
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Records of the log.
    pub records: u64,
}

/// One change of a row, or, if it is empty, the moment at which the checkpoint has the row.
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
        table: usize,
        key: &[u64],
        (stamp, sequence): (u64, u64),
        change: &'a [u8],
    ) {
        let start = key.iter().fold(table as u64, |hash, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let worker = (start >> 32) as usize % self.entries.len();
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

/// What is to become of one row: its changes from the first one that counts.
struct Outcome<'e, 'a> {
    table: usize,
    key: &'e [u64],
    changes: &'e [Entry<'a>],
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first change inserts it, whether or not the checkpoint has an earlier row with this key.
    Put,
    /// The checkpoint has it.
    Change,
    /// It goes, if it is there.
    Delete,
}

/// Recovery of one database.
pub(crate) struct Recovery<'r, P: Platform, S: Scheme<P>> {
    pub database: &'r Database<P, S>,
    pub codecs: &'r [TableCodec],
    pub places: &'r [Place],
    /// The checkpoint has all changes up to this epoch.
    pub copied_epoch: u64,
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
        let copied = self.on_all(c, |c, worker| self.load(c, worker, rows))?;
        let found = self.on_all(c, |_, worker| self.find_changes(worker, records))?;
        let repeated = Repeated {
            rows: copied.iter().map(|findings| findings.count).sum(),
            records: found.iter().map(|findings| findings.count).sum(),
        };
        // By finder: the copies' and the changes' are told apart by their numbers.
        let mut keys = Vec::with_capacity(2 * workers);
        let mut shares: Vec<Vec<Entry<'a>>> = (0..workers).map(|_| Vec::new()).collect();
        for findings in found.into_iter().chain(copied) {
            keys.push(findings.keys);
            for (share, entries) in shares.iter_mut().zip(findings.entries) {
                share.extend(entries);
            }
        }
        let (keys, any_rows) = (&keys, repeated.rows > 0);
        let shares: Vec<_> = shares
            .into_iter()
            .map(|share| Latched::<P, _>::new(c, "recovery", share))
            .collect::<Result<_, _>>()?;
        self.on_all(c, |c, worker| {
            let mut share = shares[worker].with(c, std::mem::take);
            share.sort_unstable_by(|one, other| {
                (one.table, one.key_start)
                    .cmp(&(other.table, other.key_start))
                    .then_with(|| self.key(keys, one).cmp(self.key(keys, other)))
                    .then_with(|| (one.stamp, one.sequence).cmp(&(other.stamp, other.sequence)))
            });
            if any_rows {
                self.apply(c, &self.outcomes(keys, &share)?, &|kind| kind != Kind::Change, delete_row)?;
            }
            shares[worker].with(c, |slot| *slot = share);
            Ok(())
        })?;
        self.on_all(c, |c, worker| {
            let share = shares[worker].with(c, std::mem::take);
            self.apply(c, &self.outcomes(keys, &share)?, &|kind| kind != Kind::Delete, make_row)
        })?;
        Ok(repeated)
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

    /// Inserts the rows of every so many blocks of the checkpoint; of those that were copied late, the keys.
    fn load<'a>(
        &self,
        c: P::Core,
        worker: usize,
        blocks: &[impl Iterator<Item = Record<'a>> + Clone],
    ) -> Result<Findings<'a>, OpenError> {
        let mut session = self.session(c)?;
        let mut findings = Findings::new(self.places.len());
        let mut rows = Vec::new();
        for block in blocks.iter().skip(worker).step_by(self.places.len()) {
            let mut records = block.clone().peekable();
            while records.peek().is_some() {
                rows.clear();
                for record in records.by_ref().take(ROWS_AT_ONCE) {
                    let decoded = Decoder::new(self.codecs, record.body).next();
                    let Some((table, change @ Change::Insert { fixed, tail })) = decoded else {
                        return Err(OpenError::Contradiction("a row of the checkpoint is none".into()));
                    };
                    let key = change.key(&self.codecs[table]);
                    if record.stamp >> 32 > self.copied_epoch {
                        let words = key.words(self.codecs[table].key_words);
                        findings.push(self.places.len() + worker, table, words, (record.stamp, COPY), &[]);
                    }
                    rows.push((table, fixed, tail));
                }
                findings.count += rows.len() as u64;
                self.transact(&mut session, |transaction| {
                    rows.iter().try_for_each(|(table, fixed, tail)| {
                        insert(transaction, &self.codecs[*table], *table, fixed, tail)
                    })
                })?;
            }
        }
        Ok(findings)
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
                while !decoder.is_at_end() {
                    let rest = decoder.rest();
                    let Some((table, change)) = decoder.next() else { return Err(unreadable()) };
                    let codec = &self.codecs[table];
                    let key = change.key(codec);
                    let bytes = &rest[..rest.len() - decoder.rest().len()];
                    sequence += 1;
                    findings.push(worker, table, key.words(codec.key_words), (record.stamp, sequence), bytes);
                }
            }
        }
        Ok(findings)
    }

    fn key<'k>(&self, keys: &'k [Vec<u64>], entry: &Entry<'_>) -> &'k [u64] {
        let words = self.codecs[usize::from(entry.table)].key_words;
        &keys[usize::from(entry.finder)][entry.key_at as usize..][..words]
    }

    /// What becomes of the rows; `entries` are in order.
    fn outcomes<'e, 'a>(
        &self,
        keys: &'e [Vec<u64>],
        entries: &'e [Entry<'a>],
    ) -> Result<Vec<Outcome<'e, 'a>>, OpenError> {
        let same = |one: &Entry<'_>, other: &Entry<'_>| {
            (one.table, one.key_start) == (other.table, other.key_start)
                && self.key(keys, one) == self.key(keys, other)
        };
        let mut outcomes = Vec::new();
        for group in entries.chunk_by(same) {
            let copied = group.iter().rposition(|entry| entry.change.is_empty());
            let changes = &group[copied.map_or(0, |place| place + 1)..];
            let Some(first) = changes.first() else { continue };
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
        let decoded = Decoder::new(self.codecs, entry.change).next();
        decoded.map(|(_, change)| change).ok_or_else(unreadable)
    }

    /// Does `what` to the rows of these kinds.
    fn apply(
        &self,
        c: P::Core,
        outcomes: &[Outcome<'_, '_>],
        kinds: &dyn Fn(Kind) -> bool,
        what: impl Fn(&mut Transaction<'_, '_, P, S>, &[TableCodec], &Outcome<'_, '_>) -> Result<(), Abort>,
    ) -> Result<(), OpenError> {
        let mut session = self.session(c)?;
        let chosen: Vec<_> = outcomes.iter().filter(|outcome| kinds(outcome.kind)).collect();
        for group in chosen.chunks(ROWS_AT_ONCE) {
            self.transact(&mut session, |transaction| {
                group.iter().try_for_each(|outcome| what(transaction, self.codecs, outcome))
            })?;
        }
        Ok(())
    }

    fn transact(
        &self,
        session: &mut Session<'_, P, S>,
        body: impl FnMut(&mut Transaction<'_, '_, P, S>) -> Result<(), Abort>,
    ) -> Result<(), OpenError> {
        let outcome = session.transact(&Bounds::default(), body);
        session.tend(P::now(session.core()));
        match outcome {
            Ok(Ending::Committed(..) | Ending::RolledBack) => Ok(()),
            Err(Abort::OutOfMemory(error)) => Err(OpenError::Memory(error)),
            Err(Abort::Misuse(MISSING)) => {
                Err(OpenError::Contradiction("a row changes that is not there".into()))
            }
            Err(abort) => Err(OpenError::Contradiction(abort.to_string())),
        }
    }
}

/// Why a row cannot change.
const MISSING: &str = "a row that changes is missing";

fn unreadable() -> OpenError {
    OpenError::Contradiction("a record is not what this version writes".into())
}

fn insert<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    codec: &TableCodec,
    table: usize,
    fixed: &[u8],
    tail: &[u8],
) -> Result<(), Abort> {
    let mut inserted = Ok(());
    (codec.keys_of)(fixed, tail, &mut |keys| inserted = transaction.insert(table, keys, fixed, tail));
    inserted
}

/// Deletes a row if it is there.
fn delete_row<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    codecs: &[TableCodec],
    outcome: &Outcome<'_, '_>,
) -> Result<(), Abort> {
    let codec = &codecs[outcome.table];
    let Some(row) = transaction.find(outcome.table, 0, outcome.key, Intent::Write)? else { return Ok(()) };
    let mut words = vec![0; codec.row_bytes / 8];
    transaction.read(row, 0, &mut words)?;
    let mut tail = Vec::new();
    if codec.has_tail {
        transaction.read_tail(row, &mut tail)?;
    }
    let mut deleted = Ok(());
    (codec.keys_of)(bytemuck::cast_slice(&words), &tail, &mut |keys| deleted = transaction.delete(row, keys));
    deleted
}

/// Inserts or changes a row.
fn make_row<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    codecs: &[TableCodec],
    outcome: &Outcome<'_, '_>,
) -> Result<(), Abort> {
    let codec = &codecs[outcome.table];
    let mut changes = outcome
        .changes
        .iter()
        .filter_map(|entry| Decoder::new(codecs, entry.change).next().map(|(_, change)| change));
    if outcome.kind == Kind::Put {
        let Some(Change::Insert { fixed, mut tail }) = changes.next() else {
            return Err(Abort::Misuse(MISSING));
        };
        // A row that was inserted only is taken as it is.
        let mut image = std::borrow::Cow::Borrowed(fixed);
        for change in changes {
            let Change::Update { changes, tail: new_tail, .. } = change else { continue };
            for (offset, bytes) in changes {
                image.to_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            tail = new_tail.unwrap_or(tail);
        }
        return insert(transaction, codec, outcome.table, &image, tail);
    }
    let row = transaction.find(outcome.table, 0, outcome.key, Intent::Write)?;
    let row = row.ok_or(Abort::Misuse(MISSING))?;
    for change in changes {
        let Change::Update { changes, tail, .. } = change else { continue };
        for (offset, bytes) in changes {
            transaction.write(row, offset, bytes)?;
        }
        if let Some(tail) = tail {
            transaction.write_tail(row, tail)?;
        }
    }
    Ok(())
}
