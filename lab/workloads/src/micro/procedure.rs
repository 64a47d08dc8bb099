//! The transaction: one phase, with one action for each batch of rows.

use boundary::{Plan, Procedure, Verbs};
use platform::{Intent, Work};
use schema::{Handle, Routes, Table};
use terms::Abort;

use super::choice::Request;
use super::rows::{CountedRow, MicroTables, with_table};
use crate::batch::{Batch, Batches, REQUESTS_MAX};

/// Reads and updates of some rows.
#[derive(Clone, Debug)]
pub struct MicroTransaction {
    batches: Batches<Request>,
    /// Random values that its first action declares as work.
    draws: u32,
    multisite: bool,
    digest: u64,
}

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Action {
    batch: Batch<Request>,
    draws: u32,
}

impl MicroTransaction {
    pub(super) fn new(batches: Batches<Request>, draws: u32, multisite: bool) -> Self {
        MicroTransaction { batches, draws, multisite, digest: 0 }
    }

    /// True if its rows are chosen from all sites.
    pub fn is_multisite(&self) -> bool {
        self.multisite
    }

    /// The requests.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.batches.requests()
    }

    /// A number that depends on everything read, so that reading is not optimized away.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

impl Procedure for MicroTransaction {
    type Tables = MicroTables;
    type Action = Action;
    type Output = u64;

    #[inline]
    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        if phase > 0 {
            return Plan::Commit;
        }
        self.digest = 0;
        let mut draws = self.draws;
        for batch in self.batches.iter() {
            actions.push(Action { batch: *batch, draws: std::mem::take(&mut draws) });
        }
        Plan::Run
    }

    fn has_one_phase(&self) -> bool {
        true
    }

    fn route(tables: &MicroTables, action: &Action, route: &mut Routes) {
        for request in action.batch.requests() {
            with_table!(tables, table => match request.update {
                true => route.write(table, &request.key),
                false => route.read(table, &request.key),
            });
        }
    }

    #[inline]
    fn execute<T: Verbs>(tables: &MicroTables, action: &Action, transaction: &mut T) -> Result<u64, Abort> {
        transaction.work(Work::Random, action.draws);
        transaction.work(Work::Step, DRAW_STEPS * action.draws);
        with_table!(tables, table => run(table, action.batch.requests(), transaction))
    }

    #[inline]
    fn absorb(&mut self, _: usize, _: usize, output: u64) {
        self.digest ^= output;
    }

    #[inline]
    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        self.batches.requests().for_each(|request| home(crate::batch::partition(request.key)));
        true
    }

    fn read_only(&self) -> bool {
        self.batches.requests().all(|request| !request.update)
    }
}

/// Steps for a draw: two divisions by the rows of a site, and comparisons with the rows that were
/// drawn before.
const DRAW_STEPS: u32 = 10;

/// Keys of the requests that update, or of those that read.
fn keys(requests: &[Request], update: bool, keys: &mut [u64; REQUESTS_MAX]) -> usize {
    let mut count = 0;
    for request in requests.iter().filter(|request| request.update == update) {
        keys[count] = request.key;
        count += 1;
    }
    count
}

fn existing<R>(handle: Option<Handle<R>>) -> Result<Handle<R>, Abort> {
    handle.ok_or(Abort::Misuse("a row of the microbenchmark is missing: load all parts"))
}

fn run<R: CountedRow, T: Verbs>(
    table: Table<R>,
    requests: &[Request],
    transaction: &mut T,
) -> Result<u64, Abort> {
    let mut buffer = [0; REQUESTS_MAX];
    let mut found = Vec::with_capacity(REQUESTS_MAX);
    let mut digest = 0;
    let updates = keys(requests, true, &mut buffer);
    if updates > 0 {
        transaction.find_many(table.primary(), &buffer[..updates], Intent::Write, &mut found)?;
        for handle in found.drain(..) {
            let handle = existing(handle)?;
            let counter = transaction.get(handle, R::COUNTER)?;
            transaction.put(handle, R::COUNTER, &(counter + 1))?;
            digest ^= counter;
        }
    }
    let reads = keys(requests, false, &mut buffer);
    if reads > 0 {
        transaction.find_many(table.primary(), &buffer[..reads], Intent::Read, &mut found)?;
        for handle in &found {
            R::prefetch(existing(*handle)?, transaction);
        }
        for handle in found.drain(..) {
            digest ^= transaction.row(existing(handle)?)?.digest();
        }
        transaction.work(Work::CopyWord, (reads * R::BYTES / 8) as u32);
    }
    transaction.work(Work::Step, requests.len() as u32);
    Ok(digest)
}
