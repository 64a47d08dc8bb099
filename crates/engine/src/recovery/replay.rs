//! Fills an empty database with what a checkpoint and a log say.
//!
//! A checkpoint has every row as the row was at some moment after the first record of the log that
//! counts, and each row has a moment of its own. The log has all changes since, as values. Of two
//! changes of a row the later change has the larger stamp, and repeating a change that the copy of
//! the row has already changes nothing in the end. So rows are independent of each other: the
//! changes of each row are brought into order, and the row that results is made at once, without a
//! transaction ([`concurrency::Filler`]).
//!
//! Two rows of a checkpoint may have the same unique key, if the first row was deleted before the
//! second row was inserted. So rows that the log inserts or deletes are not taken from the
//! checkpoint. The other rows of the checkpoint were there all the time, and no row that is there
//! in the end has their keys.
//!
//! Stages, each by all workers at the same time:
//!
//! 1. blocks of the log are divided into changes, each of which goes to a share by its key
//!    ([`super::entries`]);
//! 2. shares are sorted; rows that the log has inserted are made, with all their changes, in the
//!    order of keys; what remains of a share are the changes of rows that the checkpoint has, and
//!    the names of rows that are not to be taken from it;
//! 3. blocks of the checkpoint are read; their rows are made, with their changes.
//!
//! The changes of a prepared part of a transaction over several databases are in a record of their
//! own, and count with the stamp of the record that says that the part commits, wherever that is.
//! So they are divided when all records have been read. Parts without an end are left to
//! [`super::adoption`].
//!
//! The log is in memory meanwhile, with 32 bytes for each change. Of the checkpoint each worker has
//! one block in memory.

use boundary::{Decision, GlobalId, OpenError, PartOf, Progress, Stage};
use platform::Place;
use platform::files::Files;
use redo_log::{CheckpointReader, LogBlock};
use storage::{Latched, ParallelJob};

use super::entries::{Division, Entry, Remainder, find};
use super::fillers::Fillable;
use super::rows::Maker;
use crate::durable::codec::{Codecs, Decoder, TypedChange};
use crate::durable::global::{CommittedAt, GlobalRecords, Item};

/// The rows that a database was filled with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeated {
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Records of the log, and changes of rows in them.
    pub records: u64,
    pub changes: u64,
}

/// Where the changes of a prepared part are: number of the block, and place and length in its
/// payload.
#[derive(Clone, Copy)]
pub(super) struct PartChanges {
    block: usize,
    at: usize,
    bytes: usize,
}

/// The findings of one worker in the log: changes by share, and items about transactions over
/// several databases.
struct Findings {
    shares: Vec<Vec<Entry>>,
    records: u64,
    global: GlobalRecords<PartChanges>,
}

/// The findings of an opening.
#[derive(Default)]
pub(super) struct Replayed<'r> {
    pub repeated: Repeated,
    /// Parts that were prepared and have not ended, with their changes.
    pub in_doubt: Vec<(PartOf, &'r [u8])>,
    /// Decisions that are not forgotten.
    pub decisions: Vec<Decision>,
}

/// Called with the progress of an opening.
pub(crate) type ProgressListener<'l> = Option<&'l mut dyn FnMut(Progress)>;

/// Recovery of one database.
pub(super) struct Recovery<'r, P: Files> {
    pub database: &'r dyn Fillable<P>,
    pub codecs: &'r Codecs,
    pub places: &'r [Place],
    /// The log.
    pub blocks: &'r [LogBlock<'r>],
    /// Bits of the hashes that distinguish keys of more than one word.
    pub hash_mask: u32,
}

impl<'r, P: Files> Recovery<'r, P> {
    /// Inserts the rows of the checkpoint, and repeats the records.
    pub(crate) fn run(
        &self,
        c: P::Core,
        checkpoint: Option<&CheckpointReader<'_, P>>,
        mut listener: ProgressListener<'_>,
    ) -> Result<Replayed<'r>, OpenError> {
        let mut rests = Vec::new();
        let (mut division, mut replayed) = (None, Replayed::default());
        if !self.blocks.is_empty() {
            let divided =
                division.insert(Division::of(self.codecs, self.blocks, self.places.len(), self.hash_mask));
            let mut findings = self.find_changes(c, divided, &mut listener)?;
            let mut global = GlobalRecords::default();
            findings.iter_mut().for_each(|found| global.absorb(std::mem::take(&mut found.global)));
            let state = global.state().map_err(never_prepared)?;
            findings.extend(self.find_part_changes(c, divided, &state.committed, &mut listener)?);
            let bytes =
                |PartChanges { block, at, bytes }: PartChanges| &self.blocks[block].payload[at..at + bytes];
            replayed.in_doubt =
                state.in_doubt.into_iter().map(|(part, changes)| (part, bytes(changes))).collect();
            replayed.decisions = state.decisions;
            let repeated = &mut replayed.repeated;
            repeated.records = findings.iter().map(|findings| findings.records).sum();
            let entries = findings.iter().flat_map(|findings| &findings.shares);
            repeated.changes = entries.map(|entries| entries.len() as u64).sum();
            let shares = gather(findings, divided.shares());
            rests = self.repeat(c, shares, repeated.changes, &mut listener)?;
        }
        let expected: u64 = rests.iter().map(|rest| rest.changed).sum();
        let mut changed = 0;
        if let Some(checkpoint) = checkpoint {
            changed = self.load(c, checkpoint, division.as_ref(), &rests, &mut listener)?;
            replayed.repeated.rows = checkpoint.finish(c)?;
        }
        if changed == expected { Ok(replayed) } else { Err(missing()) }
    }

    /// Runs a stage on all workers.
    fn on_all<T: Send>(
        &self,
        c: P::Core,
        stage: Stage,
        total: u64,
        listener: &mut ProgressListener<'_>,
        body: impl Fn(P::Core, &ParallelJob<P>) -> Result<T, OpenError> + Sync,
    ) -> Result<Vec<T>, OpenError> {
        let body = |c, _, job: &ParallelJob<P>| body(c, job);
        match listener {
            None => ParallelJob::run(c, self.places, None, body),
            Some(listen) => {
                let mut listener = |done| listen(Progress { stage, done, total });
                ParallelJob::run(c, self.places, Some(&mut listener), body)
            }
        }
    }

    fn maker(&self, c: P::Core) -> Result<Maker<'_, '_, P>, OpenError> {
        Ok(Maker::new(c, self.codecs, self.blocks, self.database.filler(c)?))
    }

    /// Nothing found yet.
    fn findings(&self, division: &Division) -> Findings {
        let mut shares = Vec::new();
        let entries = division.changes / (division.shares() * self.places.len()) as u64;
        shares.resize_with(division.shares(), || Vec::with_capacity(entries as usize * 9 / 8));
        Findings { shares, records: 0, global: GlobalRecords::default() }
    }

    /// Divides the records into changes, but for the changes of prepared parts.
    fn find_changes(
        &self,
        c: P::Core,
        division: &Division,
        listener: &mut ProgressListener<'_>,
    ) -> Result<Vec<Findings>, OpenError> {
        let bytes = self.blocks.iter().map(|block| block.payload.len() as u64).sum();
        self.on_all(c, Stage::Dividing, bytes, listener, |c, job| {
            let mut findings = self.findings(division);
            let mut decoder = Decoder::new(self.codecs, &[]);
            loop {
                let number = job.claim(c);
                let Some(block) = self.blocks.get(number) else { return Ok(findings) };
                for record in block.records() {
                    findings.records += 1;
                    let (mut body, mut is_part) = (record.body, false);
                    while let Some(item) = Item::take(&mut body)? {
                        is_part |= matches!(item, Item::Prepare(_));
                        let at = body.as_ptr().addr() - block.payload.as_ptr().addr();
                        let changes = || PartChanges { block: number, at, bytes: body.len() };
                        findings.global.note(item, record.stamp, record.epoch, changes);
                    }
                    if !is_part {
                        self.divide(division, &mut decoder, number, body, record.stamp, &mut findings)?;
                    }
                }
                job.add(c, block.payload.len() as u64);
            }
        })
    }

    /// Divides the changes of prepared parts that have committed.
    fn find_part_changes(
        &self,
        c: P::Core,
        division: &Division,
        committed: &[(PartChanges, CommittedAt)],
        listener: &mut ProgressListener<'_>,
    ) -> Result<Vec<Findings>, OpenError> {
        if committed.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = committed.iter().map(|(changes, _)| changes.bytes as u64).sum();
        self.on_all(c, Stage::Dividing, bytes, listener, |c, job| {
            let mut findings = self.findings(division);
            let mut decoder = Decoder::new(self.codecs, &[]);
            loop {
                let Some((changes, committed)) = committed.get(job.claim(c)) else { return Ok(findings) };
                let PartChanges { block, at, bytes } = *changes;
                let body = &self.blocks[block].payload[at..at + bytes];
                self.divide(division, &mut decoder, block, body, committed.stamp, &mut findings)?;
                job.add(c, bytes as u64);
            }
        })
    }

    /// Divides what lies in block number `number` into changes.
    fn divide(
        &self,
        division: &Division,
        decoder: &mut Decoder<'r, 'r>,
        number: usize,
        body: &'r [u8],
        stamp: u64,
        findings: &mut Findings,
    ) -> Result<(), OpenError> {
        decoder.begin(body);
        let start = body.as_ptr().addr() - self.blocks[number].payload.as_ptr().addr();
        while let Some((table, kind, key)) = decoder.next_key()? {
            let at = start + body.len() - decoder.rest().len() - decoder.last().len();
            let row = division.name(table, key.words(self.codecs[table].key_words));
            let entry = Entry::new(row, kind, stamp, number, at);
            findings.shares[division.share_of(row)].push(entry);
        }
        Ok(())
    }

    /// Sorts the shares and makes the rows that the log inserts.
    fn repeat(
        &self,
        c: P::Core,
        shares: Vec<Vec<Vec<Entry>>>,
        changes: u64,
        listener: &mut ProgressListener<'_>,
    ) -> Result<Vec<Remainder>, OpenError> {
        let count = shares.len();
        let shares = Latched::<P, _>::new(c, "recovery", shares)?;
        let rests = self.on_all(c, Stage::Repeating, changes, listener, |c, job| {
            let (mut maker, mut rests, mut entries) = (self.maker(c)?, Vec::new(), Vec::new());
            loop {
                let number = job.claim(c);
                if number >= count {
                    return Ok(rests);
                }
                let share = shares.with(c, |shares: &mut Vec<_>| std::mem::take(&mut shares[number]));
                entries.clear();
                share.into_iter().for_each(|found: Vec<Entry>| entries.extend_from_slice(&found));
                Entry::sort(&mut entries);
                rests.push((number, maker.make_share(&mut entries)?));
                job.add(c, entries.len() as u64);
            }
        })?;
        let mut rests: Vec<_> = rests.into_iter().flatten().collect();
        rests.sort_unstable_by_key(|(number, _)| *number);
        Ok(rests.into_iter().map(|(_, rest)| rest).collect())
    }

    /// Makes the rows of the checkpoint; gives how many of them the log has changed.
    fn load(
        &self,
        c: P::Core,
        checkpoint: &CheckpointReader<'_, P>,
        division: Option<&Division>,
        rests: &[Remainder],
        listener: &mut ProgressListener<'_>,
    ) -> Result<u64, OpenError> {
        let changed = self.on_all(c, Stage::Loading, checkpoint.bytes(), listener, |c, job| {
            let mut maker = self.maker(c)?;
            let (mut hint, mut changed) = ((0, 0), 0);
            let mut reader = checkpoint.worker(c)?;
            while let Some((records, bytes)) = reader.next(c)? {
                let mut decoder = Decoder::new(self.codecs, &[]);
                for record in records {
                    decoder.begin(record.body);
                    // A dropped table's row is passed over.
                    let Some((table, change)) = decoder.next()? else { continue };
                    let TypedChange::Insert { row: copy } = &change else {
                        return Err(OpenError::Contradiction("a row of the checkpoint is none".into()));
                    };
                    let changes = match division {
                        None => &[][..],
                        Some(division) => {
                            let codec = &self.codecs[table];
                            let key = change.key(codec);
                            let key = key.words(codec.key_words);
                            let row = division.name(table, key);
                            let share = division.share_of(row);
                            if hint.0 != share {
                                hint = (share, 0);
                            }
                            maker.of_key(find(&rests[share].entries, row, &mut hint.1), key)?
                        }
                    };
                    match changes {
                        [] => maker.make(table, copy, &[])?,
                        [only] if only.is_gone() => {}
                        changes => {
                            maker.make(table, copy, changes)?;
                            changed += 1;
                        }
                    }
                }
                job.add(c, bytes);
            }
            Ok(changed)
        })?;
        Ok(changed.into_iter().sum())
    }
}

/// The findings of all workers, by share.
fn gather(findings: Vec<Findings>, shares: usize) -> Vec<Vec<Vec<Entry>>> {
    let mut all: Vec<Vec<Vec<Entry>>> = Vec::new();
    all.resize_with(shares, Vec::new);
    for findings in findings {
        all.iter_mut().zip(findings.shares).for_each(|(share, entries)| share.push(entries));
    }
    all
}

fn never_prepared(global: GlobalId) -> OpenError {
    OpenError::Contradiction(format!("a part of transaction {global} commits that was never prepared"))
}

fn missing() -> OpenError {
    OpenError::Contradiction("a row changes that is not there".into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use concurrency::{InstanceOptions, Silo};
    use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};

    use super::*;
    use crate::database::MemoryDatabase;
    use crate::durable::codec::TableCodec;
    use boundary::{Bounds, DurableOptions, SchemaBuilder, Verbs};
    use schema::{Inspector, Row, Schema, Table, TableOptions};

    #[derive(Row, Clone, Debug, PartialEq)]
    #[row(key(first, second))]
    struct Pair {
        first: u64,
        second: u64,
        value: u64,
    }

    fn schema() -> (SchemaBuilder, Table<Pair>) {
        let mut schema = SchemaBuilder::new();
        let pairs = schema.table::<Pair>("pairs", TableOptions::default());
        (schema, pairs)
    }

    fn options() -> InstanceOptions {
        InstanceOptions { sessions_max: 3, memory_bytes_max: 64 << 20, ..InstanceOptions::default() }
    }

    /// Rows that share the first word of their keys: inserted, changed three times in turn, and
    /// every fifth deleted.
    fn fill(c: VirtualCore, durable: &DurableOptions) -> Vec<Pair> {
        let (schema, pairs) = schema();
        let opened = MemoryDatabase::<VirtualMachine, Silo>::open(c, &options(), schema, &|_| None, durable);
        let (database, _) = opened.expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        for value in 0..4 {
            for number in 0..60 {
                let pair = Pair { first: number / 20, second: number, value };
                let changed = session.transact(&Bounds::default(), |transaction| {
                    if value == 0 {
                        return transaction.insert(pairs, &pair);
                    }
                    let key = (pair.first, pair.second);
                    let row = transaction.find(pairs.primary(), &key, platform::Intent::Write)?;
                    let row = row.ok_or(terms::Abort::Misuse("it is there"))?;
                    let goes = value == 3 && number % 5 == 0;
                    if goes { transaction.delete(row) } else { transaction.replace(row, &pair) }
                });
                changed.expect("a commit");
            }
        }
        drop(session);
        let rows = all(c, &database, pairs);
        database.close(c).expect("closed");
        rows
    }

    fn all(c: VirtualCore, database: &MemoryDatabase<VirtualMachine, Silo>, pairs: Table<Pair>) -> Vec<Pair> {
        let mut rows = Vec::new();
        let inspector = &mut database.inspector(c);
        inspector.scan(pairs.primary(), &(0, 0), &(9, u64::MAX), &mut |row: &Pair| rows.push(row.clone()));
        rows
    }

    /// Rows are distinguished by their keys where nothing else distinguishes them.
    #[test]
    fn keys_with_one_name_are_different_rows() {
        let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
        let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(&disk);
        let run = VirtualMachine::run(&config, |c| {
            let places = [Place { thread: None }; 2];
            let durable = DurableOptions { checkpoint_bytes: u64::MAX, ..DurableOptions::new("d".into()) };
            let expected = fill(c, &durable);
            assert_eq!(expected.len(), 48);
            for hash_mask in [0, 1, u32::MAX] {
                let opened = redo_log::open::<VirtualMachine>(c, Path::new("d"), &places, None);
                let opened = opened.expect("the log");
                let (schema, pairs) = schema();
                let table = schema::TableDescription::of::<Pair>("pairs").expect("a table");
                let codecs = Codecs::new(vec![TableCodec::of::<Pair>(&table)], std::iter::empty());
                let database = MemoryDatabase::create(c, &options(), schema, &|_| None).expect("memory");
                let blocks = opened.log.blocks();
                let recovery = Recovery {
                    database: &database,
                    codecs: &codecs,
                    places: &places,
                    blocks: &blocks,
                    hash_mask,
                };
                let repeated = recovery.run(c, None, None).expect("repeated").repeated;
                assert_eq!((repeated.records, repeated.changes), (240, 240));
                assert_eq!(all(c, &database, pairs), expected, "mask {hash_mask}");
            }
        });
        run.expect("a run");
    }
}
