//! The workload of a deployment of several instances between crashes, and its check.
//!
//! Each transaction has a unique number. It writes the number, with the set of all sites that get
//! it, in some sites: in its worker's own, in others, or in both; and it counts each entry. Some
//! transactions first read how much another site's worker has written there, and record that too.
//! After a crash each number has to be in all of its sites or in none, once each; counts are those
//! of entries; all that was read is there; and so is each acknowledged number. A site can also have
//! one count of all its entries, which the transactions of all workers change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use boundary::{Plan, Procedure, Verbs};
use platform::Intent;
use schema::{Inspector, Loader, Partitioning, Routes, Row, Schema, Table, TableOptions};
use serde::{Deserialize, Serialize};
use terms::Abort;
use terms::random::Random;
use workloads::{Check, Outcome, Workload};

use crate::mutex::lock;

/// Bits of a number below the number of the round.
const ROUND_SHIFT: u32 = 48;
/// No site.
const NOWHERE: u16 = u16::MAX;

/// In place of a worker: all of them.
const ALL_WORKERS: u16 = u16::MAX;
const MISSING: Abort = Abort::Misuse("a count is missing");

/// A number in a site.
#[derive(Row, Clone, Debug)]
#[row(key(site, worker, number))]
pub(super) struct Entry {
    site: u16,
    worker: u16,
    number: u64,
    /// A bit for each site that has the number.
    sites: u64,
    /// The site that the transaction read, and the count of that site's worker there.
    seen_site: u16,
    seen: u64,
}

/// Count of a worker's numbers in a site.
#[derive(Row, Clone, Debug)]
#[row(key(site, worker))]
pub(super) struct Count {
    site: u16,
    worker: u16,
    count: u64,
}

/// The tables.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    entries: Table<Entry>,
    counts: Table<Count>,
    /// True if a site has a count of all its entries.
    counts_all: bool,
}

/// A number of a worker.
type Number = (u16, u64);

/// The workload, and the state that survives crashes, outside the machine.
#[derive(Default)]
pub(super) struct Ledger {
    sites: u16,
    /// True if a site has a count of all its entries.
    counts_all: bool,
    /// The number of the boot: numbers start again.
    pub round: AtomicU64,
    /// True if acknowledged numbers are durable.
    acknowledges_durable: bool,
    /// Receives each acknowledged worker and number.
    report: Option<fn(u16, u64)>,
    state: Mutex<LedgerState>,
}

#[derive(Default)]
struct LedgerState {
    /// Numbers that were drawn, and are written in some site.
    drawn: BTreeSet<Number>,
    /// Numbers that have to be there.
    acknowledged: BTreeSet<Number>,
    /// Numbers that the last check found.
    found: BTreeSet<Number>,
}

impl Ledger {
    /// A ledger of this many sites, each with one worker.
    pub(super) fn new(sites: u16, acknowledges_durable: bool) -> Ledger {
        Ledger { sites, acknowledges_durable, ..Ledger::default() }
    }

    /// The same, which reports acknowledged numbers to another process.
    pub(super) fn reporting_to(self, report: fn(u16, u64)) -> Ledger {
        Ledger { report: Some(report), ..self }
    }

    /// The same, whose sites have a count of all their entries.
    pub(super) fn counting_all(self) -> Ledger {
        Ledger { counts_all: true, ..self }
    }

    /// Requires this number to be there: another process has acknowledged it.
    pub(super) fn require(&self, worker: u16, number: u64) {
        self.state().acknowledged.insert((worker, number));
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        lock(&self.state)
    }

    fn number(&self, now: u64) -> u64 {
        self.round.load(Ordering::Relaxed) << ROUND_SHIFT | now
    }

    /// The database was closed after its last check: the numbers found have to stay.
    pub(super) fn closed(&self) {
        let mut state = self.state();
        state.acknowledged = std::mem::take(&mut state.found);
        state.drawn.clear();
    }

    /// Numbers that have to be there.
    pub(super) fn acknowledged(&self) -> usize {
        self.state().acknowledged.len()
    }

    /// A violation in these entries and counts, if any.
    fn violation(&self, entries: &[Entry], counts: &BTreeMap<(u16, u16), u64>) -> Option<String> {
        let (mut sites, mut written) = (BTreeMap::<Number, u64>::new(), BTreeMap::<(u16, u16), u64>::new());
        for entry in entries {
            *sites.entry((entry.worker, entry.number)).or_default() |= 1 << entry.site;
            *written.entry((entry.site, entry.worker)).or_default() += 1;
            *written.entry((entry.site, ALL_WORKERS)).or_default() += 1;
        }
        if let Some(half) = entries.iter().find(|entry| sites[&(entry.worker, entry.number)] != entry.sites) {
            let there = sites[&(half.worker, half.number)];
            return Some(format!("a half-applied transaction: {half:?} is in sites {there:b}"));
        }
        if let Some((place, count)) =
            counts.iter().find(|(place, count)| written.get(*place).copied().unwrap_or(0) != **count)
        {
            return Some(format!("{place:?} has a count of {count} and {:?} entries", written.get(place)));
        }
        let seen = |entry: &&Entry| {
            entry.seen_site != NOWHERE
                && counts.get(&(entry.seen_site, entry.seen_site)).copied() < Some(entry.seen)
        };
        if let Some(entry) = entries.iter().find(seen) {
            return Some(format!("{entry:?} has seen what is lost"));
        }
        let mut state = self.state();
        if let Some(lost) = state.acknowledged.iter().find(|number| !sites.contains_key(number)) {
            return Some(format!("{lost:?} was acknowledged, and is lost"));
        }
        state.found = sites.into_keys().collect();
        None
    }
}

/// A transaction that writes its number.
#[derive(Clone, Debug)]
pub(super) struct LedgerTransaction {
    home: u16,
    number: u64,
    /// A bit for each site that gets the number.
    sites: u64,
    reads: Option<u16>,
    seen: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Action {
    Read { site: u16 },
    Put { site: u16, worker: u16, number: u64, sites: u64, seen: (u16, u64) },
}

impl LedgerTransaction {
    fn put(&self, site: u16) -> Action {
        let seen = (self.reads.unwrap_or(NOWHERE), self.seen);
        Action::Put { site, worker: self.home, number: self.number, sites: self.sites, seen }
    }

    fn has(&self, site: u16) -> bool {
        self.sites & 1 << site != 0
    }
}

fn count_up(tables: &Tables, t: &mut impl Verbs, key: (u16, u16)) -> Result<(), Abort> {
    let row = t.find(tables.counts.primary(), &key, Intent::Write)?.ok_or(MISSING)?;
    let count = t.get(row, Count::COUNT)?;
    t.put(row, Count::COUNT, &(count + 1))
}

impl Procedure for LedgerTransaction {
    type Tables = Tables;
    type Action = Action;
    type Output = u64;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        match phase {
            0 => {
                let others = (0..u64::BITS as u16).filter(|site| self.has(*site) && *site != self.home);
                // Entries in other sites do not record what was read.
                actions
                    .extend(others.map(|site| LedgerTransaction { reads: None, ..self.clone() }.put(site)));
                actions.extend(self.reads.map(|site| Action::Read { site }));
                if self.reads.is_none() && self.has(self.home) {
                    actions.push(self.put(self.home));
                }
            }
            1 if self.reads.is_some() && self.has(self.home) => actions.push(self.put(self.home)),
            _ => return Plan::Commit,
        }
        Plan::Run
    }

    fn route(tables: &Tables, action: &Action, routes: &mut Routes) {
        match action {
            Action::Read { site } => routes.read(tables.counts, &(*site, *site)),
            Action::Put { site, worker, number, .. } => {
                routes.write(tables.counts, &(*site, *worker));
                if tables.counts_all {
                    routes.write(tables.counts, &(*site, ALL_WORKERS));
                }
                routes.write(tables.entries, &(*site, *worker, *number));
            }
        }
    }

    fn execute<T: Verbs>(tables: &Tables, action: &Action, t: &mut T) -> Result<u64, Abort> {
        match *action {
            Action::Read { site } => {
                let row = t.find(tables.counts.primary(), &(site, site), Intent::Read)?.ok_or(MISSING)?;
                t.get(row, Count::COUNT)
            }
            Action::Put { site, worker, number, sites, seen: (seen_site, seen) } => {
                count_up(tables, t, (site, worker))?;
                if tables.counts_all {
                    count_up(tables, t, (site, ALL_WORKERS))?;
                }
                // A repeated write shows in the count.
                if t.find(tables.entries.primary(), &(site, worker, number), Intent::Write)?.is_none() {
                    t.insert(tables.entries, &Entry { site, worker, number, sites, seen_site, seen })?;
                }
                Ok(0)
            }
        }
    }

    fn absorb(&mut self, phase: usize, _: usize, output: u64) {
        if phase == 0 {
            self.seen = self.seen.max(output);
        }
    }

    fn read_only(&self) -> bool {
        self.sites == 0
    }
}

impl Workload for Ledger {
    type Procedure = LedgerTransaction;

    fn create(&self, schema: &mut impl Schema) -> Tables {
        let partitioning = Some(Partitioning { first: 0, count: self.sites });
        let options = || TableOptions { partitioning, ..TableOptions::default() };
        let (entries, counts) = (schema.table("entries", options()), schema.table("counts", options()));
        Tables { entries, counts, counts_all: self.counts_all }
    }

    fn parts(&self) -> usize {
        usize::from(self.sites)
    }

    fn rows(&self, _: usize) -> u64 {
        u64::from(self.sites)
    }

    fn load(
        &self,
        tables: &Tables,
        part: usize,
        _: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let count = |worker| Count { site: part as u16, worker, count: 0 };
        let all = self.counts_all.then_some(ALL_WORKERS);
        (0..self.sites).chain(all).try_for_each(|worker| loader.insert(tables.counts, &count(worker)))
    }

    fn next(&self, worker: usize, random: &mut Random, now: u64) -> LedgerTransaction {
        let home = worker as u16;
        let mut other = || (home + 1 + random.below(u64::from(self.sites) - 1) as u16) % self.sites;
        let (one, two) = (other(), other());
        let own = 1 << home;
        let (sites, reads) = match random.below(8) {
            0 => (own, None),
            1 => (own, Some(home)),
            // The other instance's participant only reads.
            2 => (own, Some(one)),
            // The coordinator changes nothing.
            3 => (1 << one, None),
            4 => (0, Some(one)),
            5 => (own | 1 << one, None),
            6 => (own | 1 << one | 1 << two, None),
            _ => (own | 1 << one, Some(two)),
        };
        LedgerTransaction { home, number: self.number(now), sites, reads, seen: 0 }
    }

    fn begin(&self, _: usize, transaction: &mut LedgerTransaction, now: u64) {
        transaction.number = self.number(now);
        if transaction.sites != 0 {
            self.state().drawn.insert((transaction.home, transaction.number));
        }
    }

    fn acknowledged(&self, worker: usize, now: u64) {
        let number = (worker as u16, self.number(now));
        let mut state = self.state();
        if self.acknowledges_durable && state.drawn.contains(&number) {
            state.acknowledged.insert(number);
            self.report.iter().for_each(|report| report(number.0, number.1));
        }
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["writing"]
    }

    fn kind(_: &LedgerTransaction) -> usize {
        0
    }

    fn check(&self, tables: &Tables, inspector: &mut impl Inspector, _: Option<&[u64]>) -> Vec<Check> {
        let (mut entries, mut counts) = (Vec::new(), BTreeMap::new());
        let all = ((0, 0, 0), (u16::MAX, u16::MAX, u64::MAX));
        inspector.scan(tables.entries.primary(), &all.0, &all.1, &mut |entry: &Entry| {
            entries.push(entry.clone());
        });
        let all = ((0, 0), (u16::MAX, u16::MAX));
        inspector.scan(tables.counts.primary(), &all.0, &all.1, &mut |count: &Count| {
            counts.insert((count.site, count.worker), count.count);
        });
        let result = self.violation(&entries, &counts).map_or(Outcome::Ok, Outcome::Violated);
        vec![Check { name: "ledger", result }]
    }
}
