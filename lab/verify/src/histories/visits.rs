//! Random transactions as procedures: an action is a visit to one site, in any instance, and
//! reports its observations and changes.
//!
//! Stamps of several instances cannot be compared. So each key has a row of its own that counts its
//! changes, which each transaction that changes the key reads and writes: these numbers order the
//! versions of a key. Only transactions that write the same keys write these rows, so they hide no
//! conflict between a reader and a writer.

use std::ops::Range;

use boundary::{Plan, Procedure, SchemaBuilder, Verbs};
use platform::Intent;
use schema::{Partitioning, Routes, Row, Schema, Table, TableOptions};
use serde::{Deserialize, Serialize};
use terms::Abort;
use terms::random::Random;

use super::recorder::Recorder;
use super::rows::{self, CELLS, KEYS_OF_PART, Ordered, Tables, stored};
use crate::history::{Change, Entry, Seen};

/// Positions of the numbers of procedure, attempt and action in a version.
const PROCEDURE_SHIFT: u32 = 32;
const ATTEMPT_SHIFT: u32 = 16;
const ACTION_SHIFT: u32 = 8;

/// Number of changes of a key.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
pub(super) struct ChangeCount {
    id: u64,
    count: u64,
}

/// The tables of all sites.
#[derive(Clone, Copy)]
pub(super) struct SiteTables {
    pub rows: Tables,
    /// The counts of items, and of cells.
    turns: [Table<ChangeCount>; 2],
}

impl SiteTables {
    /// Declares the tables for this many sites.
    pub(super) fn declare(schema: &mut SchemaBuilder, sites: u16) -> Self {
        let rows = rows::declare(schema, Some(sites), false, Some(sites));
        let partitioning = Some(Partitioning { first: 0, count: sites });
        let turns = ["turns of items", "turns of cells"];
        let turns = turns.map(|name| {
            schema.table::<ChangeCount>(name, TableOptions { partitioning, ..TableOptions::default() })
        });
        SiteTables { rows, turns }
    }

    /// Inserts half of the rows of one site. Returns versions and tags by key.
    pub(super) fn load<T: Verbs>(&self, t: &mut T, keys: Range<u64>) -> Result<Vec<Loaded>, Abort> {
        let mut initial = Vec::new();
        for key in keys {
            let (version, tag) = (key + 1, key % rows::TAGS);
            for turns in self.turns {
                t.insert(turns, &ChangeCount { id: stored(key), count: 0 })?;
            }
            if key % 2 == 0 {
                t.insert(self.rows.items, &rows::Item::make(key, tag, version))?;
                initial.push((key, (version, tag)));
            }
            if key % 4 == 0 {
                t.insert(self.rows.cells, &rows::Cell { id: stored(key), version, copies: [version; 8] })?;
                initial.push((CELLS + key, (version, 0)));
            }
        }
        Ok(initial)
    }

    /// The number of the next change of a key.
    fn turn<T: Verbs>(&self, t: &mut T, key: u64) -> Result<u64, Abort> {
        let (table, key) = if key < CELLS { (0, key) } else { (1, key - CELLS) };
        let row = t.find(self.turns[table].primary(), &stored(key), Intent::Write)?;
        let row = row.ok_or(Abort::Misuse("a key without a count of its changes"))?;
        let count = t.get(row, ChangeCount::COUNT)? + 1;
        t.put(row, ChangeCount::COUNT, &count)?;
        Ok(count)
    }
}

/// A key, with the version and the tag of its row.
pub(super) type Loaded = (u64, (u64, u64));

/// A visit to one site.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Visit {
    site: u16,
    /// Keys of the site that are used.
    keys: u64,
    reads_only: bool,
    savepoints: bool,
    seed: u64,
    /// Versions that it writes are larger.
    version: u64,
}

impl Visit {
    fn keys(&self) -> Range<u64> {
        let first = u64::from(self.site) * KEYS_OF_PART;
        first..first + self.keys
    }
}

/// Observations and changes of a visit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct VisitReport {
    pub reads: Vec<(u64, Seen)>,
    pub writes: Vec<(u64, Change)>,
    pub written: Vec<(u64, u64)>,
    /// The number of each change among those of its key, in the order of `writes`.
    pub turns: Vec<u64>,
}

/// A random transaction.
pub(super) struct Visiting {
    pub random: Random,
    /// The sites of its first phase, each true if the visit only reads; its worker's own site
    /// first, if it is one of them.
    pub sites: Vec<(u16, bool)>,
    /// A visit after the others, true if it only reads.
    pub later: Option<(u16, bool)>,
    pub rolls_back: bool,
    /// True if visits set savepoints.
    pub savepoints: bool,
    /// Keys of each site that are used.
    pub keys: u64,
    /// A number that no other procedure has.
    pub number: u64,
    pub attempts: u64,
    /// Reports of the current attempt.
    pub reports: Vec<VisitReport>,
    /// Visits of the current attempt.
    pub visits: usize,
    /// Versions that failed attempts are known to have written.
    pub aborted: Vec<(u64, u64)>,
}

impl Visiting {
    fn visit(&mut self, site: u16, reads_only: bool) -> Visit {
        let version = self.number << PROCEDURE_SHIFT
            | (self.attempts & 0xffff) << ATTEMPT_SHIFT
            | (self.visits as u64) << ACTION_SHIFT;
        self.visits += 1;
        let (keys, savepoints, seed) = (self.keys, self.savepoints, self.random.next());
        Visit { site, keys, reads_only, savepoints, seed, version }
    }

    /// Completes its entry, whose stamp is known, with its reports. Returns the numbers of its
    /// changes, in the order of the writes.
    pub(super) fn complete(self, entry: &mut Entry) -> Vec<u64> {
        entry.aborted = self.aborted;
        let mut turns = Vec::new();
        for reports in self.reports {
            entry.reads.extend(reports.reads);
            if entry.stamp.is_none() {
                entry.aborted.extend(reports.written);
                continue;
            }
            let is_last = |(key, version): &(u64, u64)| {
                reports.writes.iter().any(|(its, change)| its == key && change.version() == Some(*version))
            };
            entry.overwritten.extend(reports.written.iter().filter(|one| !is_last(one)));
            // Visits of a transaction have different sites.
            entry.writes.extend(reports.writes);
            turns.extend(reports.turns);
        }
        turns
    }
}

impl Procedure for Visiting {
    type Tables = SiteTables;
    type Action = Visit;
    type Output = VisitReport;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Visit>) -> Plan {
        match (phase, self.later) {
            (0, _) => {
                self.attempts += 1;
                self.visits = 0;
                self.aborted.extend(self.reports.drain(..).flat_map(|reports| reports.written));
                for (site, reads_only) in self.sites.clone() {
                    actions.push(self.visit(site, reads_only));
                }
                Plan::Run
            }
            (1, Some((site, reads_only))) => {
                actions.push(self.visit(site, reads_only));
                Plan::Run
            }
            _ if self.rolls_back => Plan::RollBack,
            _ => Plan::Commit,
        }
    }

    fn route(tables: &SiteTables, visit: &Visit, routes: &mut Routes) {
        let (items, cells, site) = (tables.rows.items, tables.rows.cells, &visit.site);
        if visit.reads_only {
            routes.read(items, site);
            routes.read(cells, site);
        } else {
            routes.write(items, site);
            routes.write(cells, site);
            tables.turns.iter().for_each(|turns| routes.write(*turns, site));
        }
    }

    fn execute<T: Verbs>(tables: &SiteTables, visit: &Visit, t: &mut T) -> Result<VisitReport, Abort> {
        let (mut random, mut version) = (Random::new(visit.seed, 0), visit.version);
        let recorder = Recorder::of_site(&mut random, tables.rows, visit.keys(), &mut version);
        let mut recorder = recorder.with_savepoints(visit.savepoints);
        if visit.reads_only {
            recorder.visit_read_only(t)?
        } else {
            recorder.visit(t)?
        }
        let (reads, writes, written) = recorder.end();
        let turns = writes.iter().map(|(key, _)| tables.turn(t, *key)).collect::<Result<_, _>>()?;
        Ok(VisitReport { reads, writes, written, turns })
    }

    fn absorb(&mut self, _: usize, _: usize, reports: VisitReport) {
        self.reports.push(reports);
    }

    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        self.sites.iter().for_each(|(site, _)| home(*site));
        true
    }

    fn has_one_phase(&self) -> bool {
        self.later.is_none()
    }

    fn read_only(&self) -> bool {
        self.sites.iter().chain(&self.later).all(|(_, reads_only)| *reads_only)
    }
}
