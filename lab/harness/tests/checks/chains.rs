//! Histories of transactions over instances, which are checked for serializability.
//!
//! Each write gives its row a unique version, and reads the version before. So the versions of a
//! row are a chain, which is followed back from the last one. Transactions depend on each other by
//! the versions that they read, and a cycle of dependencies is a violation (Adya, Liskov, O'Neil,
//! ICDE 2000; recorded as in Kingsbury, Alvaro, PVLDB 2020). In the end every transaction has
//! committed, so the reads and writes of its last attempt count. Some transactions only read, most
//! of them in one instance, where a scheme might show them a snapshot that is inconsistent with
//! other instances.

// Records of a test are outside of the machine that it observes.
#![allow(clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use boundary::{Plan, Procedure, Verbs};
use platform::Intent;
use schema::{Inspector, Loader, Partitioning, Routes, Row, Schema, Table, TableOptions};
use serde::{Deserialize, Serialize};
use terms::Abort;
use terms::random::Random;
use workloads::{Check, Workload};

/// Rows of a site: few, so that transactions conflict.
const ROWS: u16 = 3;

/// A row with the last transaction that wrote it.
#[derive(Row, Clone, Debug)]
#[row(key(site, number))]
pub struct Link {
    site: u16,
    number: u16,
    unused: u32,
    version: u64,
}

type Key = (u16, u16);

/// Reads and writes of the last attempt of a transaction.
#[derive(Clone, Debug, Default)]
struct Seen {
    reads: BTreeMap<Key, u64>,
    writes: BTreeSet<Key>,
}

type Records = Arc<Mutex<BTreeMap<u64, Seen>>>;

/// Transactions over rows of all sites.
pub struct Chains {
    sites: u16,
    records: Records,
    last: Mutex<BTreeMap<Key, u64>>,
}

/// Rows of one site; true for those that are written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    version: u64,
    rows: Vec<(Key, bool)>,
}

pub struct Mixed {
    version: u64,
    parts: Vec<Part>,
    seen: Seen,
    records: Records,
}

impl Procedure for Mixed {
    type Tables = Table<Link>;
    type Action = Part;
    type Output = Vec<u64>;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Part>) -> Plan {
        if phase == 0 {
            self.seen = Seen::default();
            actions.extend(self.parts.iter().cloned());
            return Plan::Run;
        }
        self.records.lock().expect("no panic").insert(self.version, self.seen.clone());
        Plan::Commit
    }

    fn route(table: &Table<Link>, part: &Part, route: &mut Routes) {
        for (key, write) in &part.rows {
            if *write { route.write(*table, key) } else { route.read(*table, key) }
        }
    }

    fn execute<T: Verbs>(table: &Table<Link>, part: &Part, t: &mut T) -> Result<Vec<u64>, Abort> {
        let mut seen = Vec::new();
        for (key, write) in &part.rows {
            let intent = if *write { Intent::Write } else { Intent::Read };
            let row = t.find(table.primary(), key, intent)?.ok_or(Abort::Misuse("a row is missing"))?;
            seen.push(t.get(row, Link::VERSION)?);
            if *write {
                t.put(row, Link::VERSION, &part.version)?;
            }
        }
        Ok(seen)
    }

    fn has_one_phase(&self) -> bool {
        true
    }

    fn read_only(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.rows).all(|(_, write)| !write)
    }

    fn absorb(&mut self, _: usize, action: usize, output: Vec<u64>) {
        for ((key, write), version) in self.parts[action].rows.iter().zip(output) {
            self.seen.reads.insert(*key, version);
            if *write {
                self.seen.writes.insert(*key);
            }
        }
    }
}

impl Chains {
    pub fn new(sites: u16) -> Self {
        Chains { sites, records: Records::default(), last: Mutex::default() }
    }

    /// Records the final rows of one instance.
    pub fn end(&self, table: &Table<Link>, inspector: &mut impl Inspector) {
        let mut last = self.last.lock().expect("no panic");
        inspector.scan(table.primary(), &(0, 0), &(u16::MAX, u16::MAX), &mut |row: &Link| {
            last.insert((row.site, row.number), row.version);
        });
    }

    /// Checks the history; `reported`: number of commits that the run has reported.
    pub fn judge(&self, told: u64) -> Result<(), String> {
        let (records, last) = (self.records.lock().expect("no panic"), self.last.lock().expect("no panic"));
        // By row: its versions, in order.
        let mut chains: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
        for (key, version) in last.iter() {
            let (mut chain, mut version) = (Vec::new(), *version);
            while version != 0 {
                let seen = records.get(&version).ok_or(format!("{key:?}: nobody wrote {version:#x}"))?;
                if !seen.writes.contains(key) || chain.contains(&version) {
                    return Err(format!("{key:?}: version {version:#x} has no place"));
                }
                chain.push(version);
                version = seen.reads[key];
            }
            chain.push(0);
            chain.reverse();
            chains.insert(*key, chain);
        }
        let written: BTreeSet<u64> = chains.values().flatten().copied().filter(|one| *one != 0).collect();
        if written.iter().any(|one| !records.contains_key(one)) || records.len() as u64 != told {
            return Err(format!(
                "{} transactions wrote, {} ran, {told} committed",
                written.len(),
                records.len()
            ));
        }
        let mut after: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (one, seen) in records.iter() {
            for (key, version) in &seen.reads {
                let chain = &chains[key];
                if seen.writes.contains(key) && !chain.contains(one) {
                    return Err(format!("{one:#x} is committed by half: not in {key:?}"));
                }
                let Some(place) = chain.iter().position(|its| its == version) else {
                    return Err(format!("{one:#x} read {version:#x} of {key:?}, which is not committed"));
                };
                after.entry(*version).or_default().insert(*one);
                if let Some(next) = chain.get(place + 1).filter(|next| *next != one) {
                    after.entry(*one).or_default().insert(*next);
                }
            }
        }
        circle(&after).map_or(Ok(()), |circle| Err(format!("a circle of transactions: {circle:x?}")))
    }
}

/// Repeatedly removes transactions without predecessors: the rest, if there is any, has a cycle.
fn circle(after: &BTreeMap<u64, BTreeSet<u64>>) -> Option<Vec<u64>> {
    let mut left: BTreeSet<u64> = after.keys().chain(after.values().flatten()).copied().collect();
    loop {
        let has_earlier: BTreeSet<u64> =
            after.iter().filter(|(one, _)| left.contains(one)).flat_map(|(_, next)| next).copied().collect();
        let before = left.len();
        left.retain(|one| has_earlier.contains(one));
        if left.is_empty() || left.len() == before {
            return (!left.is_empty()).then(|| left.into_iter().collect());
        }
    }
}

impl Workload for Chains {
    type Procedure = Mixed;

    fn create(&self, schema: &mut impl Schema) -> Table<Link> {
        let partitioning = Some(Partitioning { first: 0, count: self.sites });
        schema.table("link", TableOptions { partitioning, ..TableOptions::default() })
    }

    fn parts(&self) -> usize {
        usize::from(self.sites)
    }

    fn rows(&self, _: usize) -> u64 {
        u64::from(ROWS)
    }

    fn load(
        &self,
        table: &Table<Link>,
        part: usize,
        _: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        (0..ROWS).try_for_each(|number| {
            loader.insert(*table, &Link { site: part as u16, number, unused: 0, version: 0 })
        })
    }

    fn next(&self, worker: usize, random: &mut Random, _: u64) -> Mixed {
        let home = worker as u16 % self.sites;
        // Unique: 48 random bits and the worker.
        let version = random.next() >> 16 << 8 | (worker as u64 + 1);
        let mut rows: BTreeMap<Key, bool> = BTreeMap::new();
        let (reads, stays) = (random.chance(40), random.chance(70));
        rows.insert((home, random.below(u64::from(ROWS)) as u16), !reads);
        for _ in 0..random.between(1, 3) {
            let at_home = random.chance(40) || (reads && stays);
            let site = if at_home { home } else { random.below(u64::from(self.sites)) as u16 };
            let key = (site, random.below(u64::from(ROWS)) as u16);
            rows.entry(key).or_insert(!reads && random.chance(40));
        }
        let mut parts: Vec<Part> = Vec::new();
        for (key, write) in rows {
            match parts.iter_mut().find(|part| part.rows[0].0.0 == key.0) {
                Some(part) => part.rows.push((key, write)),
                None => parts.push(Part { version, rows: vec![(key, write)] }),
            }
        }
        Mixed { version, parts, seen: Seen::default(), records: Arc::clone(&self.records) }
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["mixed"]
    }

    fn kind(_: &Mixed) -> usize {
        0
    }

    fn check(&self, _: &Table<Link>, _: &mut impl Inspector, _: Option<&[u64]>) -> Vec<Check> {
        Vec::new()
    }
}

#[test]
fn circles_are_found() {
    let graph = |edges: &[(u64, u64)]| {
        let mut after: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (from, to) in edges {
            after.entry(*from).or_default().insert(*to);
        }
        circle(&after)
    };
    assert_eq!(graph(&[(1, 2), (2, 3), (1, 3)]), None);
    assert!(graph(&[(1, 2), (2, 3), (3, 2)]).is_some());
}
