//! A workload that tests the order of transactions over instances: switches in pairs, with the
//! halves in different sites.
//!
//! A transaction reads the other half of a pair, and then sets its own half: off if both are on, on
//! otherwise. So both are never off, unless two transactions read before either has written. A
//! transaction that finds both off counts this.

use boundary::{Plan, Procedure, Verbs};
use platform::Intent;
use schema::{Inspector, Loader, Partitioning, Routes, Row, Schema, Table, TableOptions};
use serde::{Deserialize, Serialize};
use terms::Abort;
use terms::random::Random;
use workloads::{Check, Outcome, Workload};

/// Pairs of a site: few, so that transactions conflict.
const PAIRS: u16 = 2;

/// One half of a pair: of the pair (site, number) with the next site, or of the pair of the site
/// before.
#[derive(Row, Clone, Debug)]
#[row(key(site, number, half))]
pub struct Switch {
    site: u16,
    number: u16,
    /// 0: the pair's first half. 1: its second half, which lies in the next site.
    half: u16,
    on: u16,
    both_off: u64,
}

/// Pairs between neighbouring sites.
pub struct Pairs {
    pub sites: u16,
}

/// A half by its place.
type Place = (u16, u16, u16);

#[derive(Clone, Debug)]
pub struct Turn {
    own: Place,
    other: Place,
    /// True if the other half is read in a second round.
    late: bool,
    other_on: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Action {
    Look(Place),
    Set { place: Place, other_on: bool },
    Wait(Place),
}

impl Procedure for Turn {
    type Tables = Table<Switch>;
    type Action = Action;
    type Output = bool;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        match (phase, self.late) {
            (0, false) => actions.push(Action::Look(self.other)),
            (0, true) => actions.extend([Action::Wait(self.own), Action::Look(self.other)]),
            (1, false) => actions.push(Action::Set { place: self.own, other_on: self.other_on }),
            (1, true) => actions.push(Action::Look(self.other)),
            _ => return Plan::Commit,
        }
        Plan::Run
    }

    fn route(table: &Table<Switch>, action: &Action, route: &mut Routes) {
        match action {
            Action::Look(place) | Action::Wait(place) => route.read(*table, place),
            Action::Set { place, .. } => route.write(*table, place),
        }
    }

    fn execute<T: Verbs>(table: &Table<Switch>, action: &Action, t: &mut T) -> Result<bool, Abort> {
        let missing = Abort::Misuse("a switch is missing");
        match action {
            Action::Look(place) | Action::Wait(place) => {
                let row = t.find(table.primary(), place, Intent::Read)?.ok_or(missing)?;
                Ok(t.get(row, Switch::ON)? == 1)
            }
            Action::Set { place, other_on } => {
                let row = t.find(table.primary(), place, Intent::Write)?.ok_or(missing)?;
                let on = t.get(row, Switch::ON)? == 1;
                if !on && !other_on {
                    let seen = t.get(row, Switch::BOTH_OFF)?;
                    t.put(row, Switch::BOTH_OFF, &(seen + 1))?;
                }
                t.put(row, Switch::ON, &u16::from(!(on && *other_on)))?;
                Ok(on)
            }
        }
    }

    fn absorb(&mut self, phase: usize, _: usize, output: bool) {
        if phase == 0 {
            self.other_on = output;
        }
    }
}

impl Pairs {
    fn place(&self, site: u16, number: u16, half: u16) -> Place {
        ((site + half) % self.sites, number, half)
    }
}

impl Workload for Pairs {
    type Procedure = Turn;

    fn create(&self, schema: &mut impl Schema) -> Table<Switch> {
        let partitioning = Some(Partitioning { first: 0, count: self.sites });
        schema.table("switch", TableOptions { partitioning, ..TableOptions::default() })
    }

    fn parts(&self) -> usize {
        usize::from(self.sites)
    }

    fn rows(&self, _: usize) -> u64 {
        u64::from(2 * PAIRS)
    }

    fn load(
        &self,
        table: &Table<Switch>,
        part: usize,
        _: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        for (number, half) in (0..PAIRS).flat_map(|number| [(number, 0), (number, 1)]) {
            let switch = Switch { site: part as u16, number, half, on: 1, both_off: 0 };
            loader.insert(*table, &switch)?;
        }
        Ok(())
    }

    fn next(&self, worker: usize, random: &mut Random, _: u64) -> Turn {
        let home = worker as u16 % self.sites;
        let (number, half) = (random.below(u64::from(PAIRS)) as u16, random.below(2) as u16);
        // The pair whose half of this number is at home.
        let site = (home + self.sites - half) % self.sites;
        let (own, other) = (self.place(site, number, half), self.place(site, number, 1 - half));
        Turn { own, other, late: false, other_on: false }
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["turn"]
    }

    fn kind(_: &Turn) -> usize {
        0
    }

    fn check(&self, table: &Table<Switch>, inspector: &mut impl Inspector, _: Option<&[u64]>) -> Vec<Check> {
        let (mut rows, mut both_off) = (0, 0);
        inspector.scan(table.primary(), &(0, 0, 0), &(u16::MAX, u16::MAX, u16::MAX), &mut |row: &Switch| {
            rows += 1;
            both_off += row.both_off;
        });
        let result = match (rows == u64::from(2 * PAIRS * self.sites), both_off) {
            (true, 0) => Outcome::Ok,
            _ => Outcome::Violated(format!("{rows} switches, {both_off} pairs seen off")),
        };
        vec![Check { name: "pairs", result }]
    }
}

/// As above, in two rounds.
pub struct TwoRounds(pub Pairs);

impl Workload for TwoRounds {
    type Procedure = Turn;

    fn create(&self, schema: &mut impl Schema) -> Table<Switch> {
        self.0.create(schema)
    }

    fn parts(&self) -> usize {
        self.0.parts()
    }

    fn rows(&self, part: usize) -> u64 {
        self.0.rows(part)
    }

    fn load(
        &self,
        table: &Table<Switch>,
        part: usize,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        self.0.load(table, part, random, loader)
    }

    fn next(&self, worker: usize, random: &mut Random, now: u64) -> Turn {
        Turn { late: true, ..self.0.next(worker, random, now) }
    }

    fn kinds(&self) -> &'static [&'static str] {
        self.0.kinds()
    }

    fn kind(turn: &Turn) -> usize {
        Pairs::kind(turn)
    }

    fn check(
        &self,
        table: &Table<Switch>,
        inspector: &mut impl Inspector,
        committed: Option<&[u64]>,
    ) -> Vec<Check> {
        self.0.check(table, inspector, committed)
    }
}
