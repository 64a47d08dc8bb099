//! The transaction. If a key depends on the length of the worker's own partition, it has two
//! phases: the first reads the length and adds the insertions of the transaction, the second
//! performs the requests. Otherwise it has one phase.

use std::ops::ControlFlow;

use boundary::{Direction, Plan, Procedure, Verbs};
use platform::{Intent, Work};
use schema::{Handle, Routes};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{Content, Growth, Record, YcsbTables, field_content, record_key, stamp};
use super::spec::YcsbSpec;
use crate::batch::{Batch, Batches, Grouping, REQUESTS_MAX, key, number, partition};
use crate::zipf::Latest;

/// The operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Reads a record.
    #[default]
    Read,
    /// Reads one of the latest records, which may not exist yet.
    ReadLatest,
    /// Writes a field.
    Update,
    /// Reads a record, and writes a field that depends on it.
    Modify,
    /// Inserts a record.
    Insert,
    /// Reads records with ascending keys.
    Scan,
}

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The record, or the first one of a scan. Before the key is known: the age for
    /// [`Verb::ReadLatest`], 0 for [`Verb::Insert`].
    pub key: u64,
    /// The stamp that an update writes.
    pub stamp: u32,
    /// The operation.
    pub verb: Verb,
    /// Number of the field to write, or largest number of records of the scan.
    pub detail: u8,
}

impl Request {
    /// The partition, if it is known from the start.
    #[inline]
    pub(super) fn partition(&self) -> Option<u16> {
        match self.verb {
            Verb::ReadLatest | Verb::Insert => None,
            _ => Some(partition(self.key)),
        }
    }
}

/// Requests of a transaction.
pub type Requests = Batches<Request>;

/// State of a transaction that depends on the length of its worker's partition.
#[derive(Clone, Debug)]
struct Growing {
    home: u16,
    /// Records loaded into that partition.
    loaded: u64,
    partitions: u16,
    grouping: Grouping,
    /// Insertions of this transaction.
    inserts: u32,
    /// Records inserted before.
    inserted: u64,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct YcsbTransaction {
    requests: Requests,
    growing: Option<Growing>,
    digest: u64,
}

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate for each action")]
pub enum Action {
    /// Returns the number of insertions into a partition before this transaction, and adds those of
    /// this transaction.
    Grow {
        /// The partition.
        partition: u16,
        /// Insertions of this transaction.
        inserts: u32,
    },
    /// Requests with keys.
    Requests(Batch<Request>),
}

impl YcsbTransaction {
    /// A transaction whose keys are all known.
    pub(super) fn new(requests: Requests) -> Self {
        YcsbTransaction { requests, growing: None, digest: 0 }
    }

    /// A transaction some of whose keys may depend on the length of partition `home`, into which
    /// `loaded` records were loaded.
    pub(super) fn growing(requests: Requests, home: u16, loaded: u64, spec: &YcsbSpec) -> Self {
        let is_known = |request: &Request| request.partition().is_some();
        if requests.requests().all(is_known) {
            return YcsbTransaction::new(requests);
        }
        let inserts = requests.requests().filter(|request| request.verb == Verb::Insert).count() as u32;
        let (partitions, grouping) = (spec.partitions, spec.grouping);
        let growing = Some(Growing { home, loaded, partitions, grouping, inserts, inserted: 0 });
        YcsbTransaction { requests, growing, digest: 0 }
    }

    /// The requests as drawn.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.requests()
    }

    /// A number that depends on everything read, so that reading is not optimized away.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

impl Growing {
    /// The requests with their keys.
    fn resolve(&self, requests: &Requests) -> Requests {
        let mut next = self.loaded + self.inserted;
        // The newest record, numbered over all partitions as if all were as long as this one.
        let newest = (next - 1) * u64::from(self.partitions) + u64::from(self.home);
        let mut resolved = Batches::new();
        for request in requests.requests() {
            let key = match request.verb {
                Verb::Insert => {
                    next += 1;
                    key(self.home, next - 1)
                }
                Verb::ReadLatest => record_key(Latest::item(newest, request.key), self.partitions),
                _ => request.key,
            };
            resolved.push(self.grouping, partition(key), Request { key, ..*request });
        }
        resolved
    }
}

impl Procedure for YcsbTransaction {
    type Tables = YcsbTables;
    type Action = Action;
    type Output = u64;

    fn has_one_phase(&self) -> bool {
        self.growing.is_none()
    }

    #[inline]
    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        if phase == 0 {
            self.digest = 0;
        }
        match (&self.growing, phase) {
            (None, 0) => actions.extend(self.requests.iter().copied().map(Action::Requests)),
            (Some(growing), 0) => {
                actions.push(Action::Grow { partition: growing.home, inserts: growing.inserts });
            }
            (Some(growing), 1) => {
                actions.extend(growing.resolve(&self.requests).iter().copied().map(Action::Requests));
            }
            _ => return Plan::Commit,
        }
        Plan::Run
    }

    fn route(tables: &YcsbTables, action: &Action, route: &mut Routes) {
        match action {
            Action::Grow { partition, inserts: 0 } => route.read(tables.growth, partition),
            Action::Grow { partition, .. } => route.write(tables.growth, partition),
            Action::Requests(batch) => {
                batch.requests().iter().for_each(|request| route_request(tables, request, route));
            }
        }
    }

    #[inline]
    fn execute<T: Verbs>(tables: &YcsbTables, action: &Action, transaction: &mut T) -> Result<u64, Abort> {
        match action {
            Action::Grow { partition, inserts } => grow(tables, *partition, *inserts, transaction),
            Action::Requests(batch) => {
                // The draws of the verb and of the rank of the record, which is mapped to the
                // record by divisions.
                let requests = batch.requests().len() as u32;
                transaction.work(Work::Random, 2 * requests);
                transaction.work(Work::Step, DRAW_STEPS * requests);
                let written = write(tables, batch.requests(), transaction)?;
                Ok(written ^ read(tables, batch.requests(), transaction)?)
            }
        }
    }

    #[inline]
    fn absorb(&mut self, phase: usize, _: usize, output: u64) {
        match &mut self.growing {
            Some(growing) if phase == 0 => growing.inserted = output,
            _ => self.digest ^= output,
        }
    }

    #[inline]
    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        match &self.growing {
            None => self.requests.requests().for_each(|request| home(partition(request.key))),
            Some(growing) => home(growing.home),
        }
        true
    }

    fn read_only(&self) -> bool {
        self.requests
            .requests()
            .all(|request| matches!(request.verb, Verb::Read | Verb::ReadLatest | Verb::Scan))
    }
}

fn route_request(tables: &YcsbTables, request: &Request, route: &mut Routes) {
    match request.verb {
        Verb::Read | Verb::ReadLatest => route.read(tables.records, &request.key),
        Verb::Update | Verb::Modify | Verb::Insert => route.write(tables.records, &request.key),
        Verb::Scan => route.between(tables.records, &request.key, &last_key(request), Intent::Read),
    }
}

/// The highest key that a scan may read: the end of the partition.
fn last_key(request: &Request) -> u64 {
    key(partition(request.key), number(u64::MAX))
}

fn missing() -> Abort {
    Abort::Misuse("a record of YCSB is missing: load all parts")
}

fn grow<T: Verbs>(
    tables: &YcsbTables,
    partition: u16,
    inserts: u32,
    transaction: &mut T,
) -> Result<u64, Abort> {
    let intent = if inserts > 0 { Intent::Write } else { Intent::Read };
    let row = transaction.find(tables.growth.primary(), &partition, intent)?.ok_or_else(missing)?;
    let inserted = transaction.get(row, Growth::INSERTED)?;
    if inserts > 0 {
        transaction.put(row, Growth::INSERTED, &(inserted + u64::from(inserts)))?;
    }
    Ok(inserted)
}

/// Steps for drawing a request: three divisions, of four steps each.
const DRAW_STEPS: u32 = 12;

/// Keys of the requests with one of two verbs.
#[inline]
fn keys(requests: &[Request], verbs: [Verb; 2], keys: &mut [u64; REQUESTS_MAX]) -> usize {
    let mut count = 0;
    for request in requests.iter().filter(|request| verbs.contains(&request.verb)) {
        keys[count] = request.key;
        count += 1;
    }
    count
}

/// Updates, read-modify-writes and insertions.
#[inline]
fn write<T: Verbs>(tables: &YcsbTables, requests: &[Request], transaction: &mut T) -> Result<u64, Abort> {
    let mut buffer = [0; REQUESTS_MAX];
    let count = keys(requests, [Verb::Update, Verb::Modify], &mut buffer);
    let mut digest = 0;
    if count > 0 {
        let mut found = Vec::with_capacity(REQUESTS_MAX);
        transaction.find_many(tables.records.primary(), &buffer[..count], Intent::Write, &mut found)?;
        let written = requests.iter().filter(|request| matches!(request.verb, Verb::Update | Verb::Modify));
        for (request, handle) in written.zip(found) {
            digest ^= write_field(request, handle.ok_or_else(missing)?, transaction)?;
        }
    }
    for request in requests.iter().filter(|request| request.verb == Verb::Insert) {
        let content = Content::new(request.key, request.stamp);
        transaction.insert(tables.records, &Record { id: request.key, content })?;
    }
    Ok(digest)
}

fn write_field<T: Verbs>(request: &Request, row: Handle<Record>, transaction: &mut T) -> Result<u64, Abort> {
    let field = usize::from(request.detail);
    let (stamp, digest) = match request.verb {
        Verb::Modify => {
            let content = transaction.get(row, Record::CONTENT)?;
            (stamp(content.field(field)).wrapping_add(1), content.digest())
        }
        _ => (request.stamp, 0),
    };
    transaction.put(row, Record::field(field), &field_content(request.key, field, stamp))?;
    Ok(digest)
}

/// Reads and scans.
#[inline]
fn read<T: Verbs>(tables: &YcsbTables, requests: &[Request], transaction: &mut T) -> Result<u64, Abort> {
    let mut buffer = [0; REQUESTS_MAX];
    let count = keys(requests, [Verb::Read, Verb::ReadLatest], &mut buffer);
    let mut digest = 0;
    if count > 0 {
        let mut found = Vec::with_capacity(REQUESTS_MAX);
        transaction.find_many(tables.records.primary(), &buffer[..count], Intent::Read, &mut found)?;
        // A record has two lines; the lookup has prefetched the first.
        for handle in found.iter().flatten() {
            transaction.prefetch(*handle, Record::CONTENT, Intent::Read);
        }
        let reads = requests.iter().filter(|request| matches!(request.verb, Verb::Read | Verb::ReadLatest));
        for (request, handle) in reads.zip(found) {
            match handle {
                Some(handle) => digest ^= transaction.get(handle, Record::CONTENT)?.digest(),
                None if request.verb == Verb::ReadLatest => {}
                None => return Err(missing()),
            }
        }
        transaction.work(Work::CopyWord, (count * size_of::<Content>() / 8) as u32);
    }
    for request in requests.iter().filter(|request| request.verb == Verb::Scan) {
        digest ^= scan(tables, request, transaction)?;
    }
    Ok(digest)
}

fn scan<T: Verbs>(tables: &YcsbTables, request: &Request, transaction: &mut T) -> Result<u64, Abort> {
    let mut left = request.detail;
    let mut digest = 0;
    transaction.scan(
        tables.records.primary(),
        &request.key,
        &last_key(request),
        Direction::Forward,
        Intent::Read,
        &mut |transaction, handle| {
            digest ^= transaction.get(handle, Record::CONTENT)?.digest();
            left = left.saturating_sub(1);
            Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        },
    )?;
    Ok(digest)
}
