//! What runs on a deployment of several instances between crashes, and what has to be there after
//! them.
//!
//! Each transaction has a number that no other has, and writes it down, with all the sites where it
//! does so, in some sites: in its worker's own, in others, or in both; with each entry it counts.
//! Some look first at how much another site's worker has written there, and note that, too. After a
//! crash every number has to be in all of its sites or in none, once each; counts are those of
//! entries; what was seen is there; and so is every number that was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use boundary::{Plan, Procedure, Verbs};
use platform::Intent;
use schema::{Inspector, Loader, Partitioning, Routes, Row, Schema, Table, TableOptions};
use serde::{Deserialize, Serialize};
use terms::Abort;
use terms::random::Random;
use workloads::{Check, Outcome, Workload};

/// Bits of a number below the number of the round.
const ROUND_SHIFT: u32 = 48;
/// No site.
const NOWHERE: u16 = u16::MAX;

/// A number in a site.
#[derive(Row, Clone, Debug)]
#[row(key(site, worker, number))]
pub(super) struct Entry {
    site: u16,
    worker: u16,
    number: u64,
    /// A bit for each site that has the number.
    sites: u64,
    /// The site that the transaction looked at, and how much its worker had written there.
    seen_site: u16,
    seen: u64,
}

/// How many numbers of a worker a site has.
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
}

/// A number of a worker.
type Number = (u16, u64);

/// The workload, and what is known of it outside the machine.
#[derive(Default)]
pub(super) struct Ledger {
    sites: u16,
    /// The life of the machine: numbers begin anew.
    pub round: AtomicU64,
    /// True if what is acknowledged is durable.
    acknowledges_durable: bool,
    /// Hears what is acknowledged: worker and number.
    tell: Option<fn(u16, u64)>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Numbers that were drawn, and are written somewhere.
    drawn: BTreeSet<Number>,
    /// Numbers that have to be there.
    acknowledged: BTreeSet<Number>,
    /// Numbers that the last check has found.
    found: BTreeSet<Number>,
}

impl Ledger {
    /// With so many sites, each of one worker.
    pub(super) fn new(sites: u16, acknowledges_durable: bool) -> Ledger {
        Ledger { sites, acknowledges_durable, ..Ledger::default() }
    }

    /// The same, in a process of which others hear what is acknowledged.
    pub(super) fn telling(self, tell: fn(u16, u64)) -> Ledger {
        Ledger { tell: Some(tell), ..self }
    }

    /// This number has to be there: another process has acknowledged it.
    pub(super) fn claim(&self, worker: u16, number: u64) {
        self.known().acknowledged.insert((worker, number));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, now: u64) -> u64 {
        self.round.load(Ordering::Relaxed) << ROUND_SHIFT | now
    }

    /// The database was closed after its last check: what was found stays.
    pub(super) fn closed(&self) {
        let mut known = self.known();
        known.acknowledged = std::mem::take(&mut known.found);
        known.drawn.clear();
    }

    /// Numbers that have to be there.
    pub(super) fn acknowledged(&self) -> usize {
        self.known().acknowledged.len()
    }

    /// What is wrong with these entries and counts.
    fn wrong(&self, entries: &[Entry], counts: &BTreeMap<(u16, u16), u64>) -> Option<String> {
        let (mut sites, mut written) = (BTreeMap::<Number, u64>::new(), BTreeMap::<(u16, u16), u64>::new());
        for entry in entries {
            *sites.entry((entry.worker, entry.number)).or_default() |= 1 << entry.site;
            *written.entry((entry.site, entry.worker)).or_default() += 1;
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
        let mut known = self.known();
        if let Some(lost) = known.acknowledged.iter().find(|number| !sites.contains_key(number)) {
            return Some(format!("{lost:?} was acknowledged, and is lost"));
        }
        known.found = sites.into_keys().collect();
        None
    }
}

/// A transaction.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    home: u16,
    number: u64,
    /// A bit for each site that gets the number.
    sites: u64,
    look: Option<u16>,
    seen: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Action {
    Look { site: u16 },
    Put { site: u16, worker: u16, number: u64, sites: u64, seen: (u16, u64) },
}

impl Writing {
    fn put(&self, site: u16) -> Action {
        let seen = (self.look.unwrap_or(NOWHERE), self.seen);
        Action::Put { site, worker: self.home, number: self.number, sites: self.sites, seen }
    }

    fn has(&self, site: u16) -> bool {
        self.sites & 1 << site != 0
    }
}

impl Procedure for Writing {
    type Tables = Tables;
    type Action = Action;
    type Output = u64;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        match phase {
            0 => {
                let others = (0..u64::BITS as u16).filter(|site| self.has(*site) && *site != self.home);
                // What others write knows nothing of what was seen.
                actions.extend(others.map(|site| Writing { look: None, ..self.clone() }.put(site)));
                actions.extend(self.look.map(|site| Action::Look { site }));
                if self.look.is_none() && self.has(self.home) {
                    actions.push(self.put(self.home));
                }
            }
            1 if self.look.is_some() && self.has(self.home) => actions.push(self.put(self.home)),
            _ => return Plan::Commit,
        }
        Plan::Run
    }

    fn route(tables: &Tables, action: &Action, routes: &mut Routes) {
        match action {
            Action::Look { site } => routes.read(tables.counts, &(*site, *site)),
            Action::Put { site, worker, number, .. } => {
                routes.write(tables.counts, &(*site, *worker));
                routes.write(tables.entries, &(*site, *worker, *number));
            }
        }
    }

    fn execute<T: Verbs>(tables: &Tables, action: &Action, t: &mut T) -> Result<u64, Abort> {
        let missing = Abort::Misuse("a count is missing");
        match *action {
            Action::Look { site } => {
                let row = t.find(tables.counts.primary(), &(site, site), Intent::Read)?.ok_or(missing)?;
                t.get(row, Count::COUNT)
            }
            Action::Put { site, worker, number, sites, seen: (seen_site, seen) } => {
                let row = t.find(tables.counts.primary(), &(site, worker), Intent::Write)?.ok_or(missing)?;
                let count = t.get(row, Count::COUNT)?;
                t.put(row, Count::COUNT, &(count + 1))?;
                // Twice is noticed by the count.
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
    type Procedure = Writing;

    fn create(&self, schema: &mut impl Schema) -> Tables {
        let partitioning = Some(Partitioning { first: 0, count: self.sites });
        let options = || TableOptions { partitioning, ..TableOptions::default() };
        Tables { entries: schema.table("entries", options()), counts: schema.table("counts", options()) }
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
        (0..self.sites).try_for_each(|worker| loader.insert(tables.counts, &count(worker)))
    }

    fn next(&self, worker: usize, random: &mut Random, now: u64) -> Writing {
        let home = worker as u16;
        let mut other = || (home + 1 + random.below(u64::from(self.sites) - 1) as u16) % self.sites;
        let (one, two) = (other(), other());
        let own = 1 << home;
        let (sites, look) = match random.below(8) {
            0 => (own, None),
            1 => (own, Some(home)),
            // A participant that only reads.
            2 => (own, Some(one)),
            // A coordinator that changes nothing.
            3 => (1 << one, None),
            4 => (0, Some(one)),
            5 => (own | 1 << one, None),
            6 => (own | 1 << one | 1 << two, None),
            _ => (own | 1 << one, Some(two)),
        };
        Writing { home, number: self.number(now), sites, look, seen: 0 }
    }

    fn begin(&self, _: usize, writing: &mut Writing, now: u64) {
        writing.number = self.number(now);
        if writing.sites != 0 {
            self.known().drawn.insert((writing.home, writing.number));
        }
    }

    fn acknowledged(&self, worker: usize, now: u64) {
        let number = (worker as u16, self.number(now));
        let mut known = self.known();
        if self.acknowledges_durable && known.drawn.contains(&number) {
            known.acknowledged.insert(number);
            self.tell.iter().for_each(|tell| tell(number.0, number.1));
        }
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["writing"]
    }

    fn kind(_: &Writing) -> usize {
        0
    }

    fn check(&self, tables: &Tables, inspector: &mut impl Inspector) -> Vec<Check> {
        let (mut entries, mut counts) = (Vec::new(), BTreeMap::new());
        let all = ((0, 0, 0), (u16::MAX, u16::MAX, u64::MAX));
        inspector.scan(tables.entries.primary(), &all.0, &all.1, &mut |entry: &Entry| {
            entries.push(entry.clone());
        });
        let all = ((0, 0), (u16::MAX, u16::MAX));
        inspector.scan(tables.counts.primary(), &all.0, &all.1, &mut |count: &Count| {
            counts.insert((count.site, count.worker), count.count);
        });
        let result = self.wrong(&entries, &counts).map_or(Outcome::Ok, Outcome::Violated);
        vec![Check { name: "ledger", result }]
    }
}
