//! The check that recorded transactions are serializable.
//!
//! Source: Adya, Liskov, O'Neil, "Generalized isolation level definitions", ICDE 2000 (direct
//! serialization graph); Kingsbury, Alvaro, "Elle: inferring isolation anomalies from experimental
//! observations", PVLDB 2020 (recorded so that the graph can be built).
//!
//! Every write gives its row a version that no other write uses, which identifies the transaction
//! that a reader read from. The order of the versions of one key is that of the commit stamps.
//! Scans record an observation of every key that could lie in their range, so that phantoms are
//! ordinary reads of absence.
//!
//! An absence has no version: a key may be absent several times. Such an observation fits several
//! places in the key's chain of versions, and the history is serializable if some choice of places
//! gives no cycle. The checker strikes out places that contradict the known order, and tries the
//! rest.
//!
//! The checker also checks strictness (a transaction that ended before another began comes first),
//! that stamps ascend along overwrites and reads of rows, and that epochs (the upper half of
//! stamps) never descend along any dependency. For a scheme that is strict from epoch to epoch
//! only, it checks strictness between epochs, and that no read of a row is older than the
//! transaction. Stamps of several instances cannot be compared, so for transactions over several
//! instances it checks everything but stamps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terms::Stamp;

pub use crate::order::Reason;
use crate::order::{Cycle, Order};

/// Guesses about open observations after which the checker gives up on a history.
const GUESSES_MAX: u32 = 2_000;

/// A version that no transaction writes: it stands for an observation that contradicts the reader's
/// own changes.
pub const UNEXPLAINED: u64 = u64::MAX;

/// An observation: the state of a key that a transaction saw before it changed the key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// No row.
    Absent,
    /// Some row.
    Present,
    /// The row with this version.
    Version(u64),
    /// No row with this tag: absent, or a row with another tag.
    NotTagged(u64),
}

/// The last change of a key by a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A new row.
    Insert {
        /// The row's new version, which no other write uses.
        version: u64,
        /// The row's value in a secondary index.
        tag: u64,
    },
    /// New contents of an existing row.
    Update {
        /// The row's new version, which no other write uses.
        version: u64,
        /// The row's value in a secondary index.
        tag: u64,
    },
    /// The row is deleted.
    Delete,
}

impl Change {
    /// The version of the row that the change leaves, if any.
    pub fn version(self) -> Option<u64> {
        match self {
            Change::Insert { version, .. } | Change::Update { version, .. } => Some(version),
            Change::Delete => None,
        }
    }
}

/// One transaction that ended. A transaction that rolled back by its own decision is an entry
/// without changes: the observations that led to the rollback have to be consistent too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The worker that ran it.
    pub worker: usize,
    /// The stamp of its commit; `None` if it rolled back.
    pub stamp: Option<Stamp>,
    /// Moment just before it began.
    pub began: u64,
    /// Moment just after it ended.
    pub ended: u64,
    /// Observations in any order, without those of its own writes.
    pub reads: Vec<(u64, Seen)>,
    /// Its changes, at most one a key.
    pub writes: Vec<(u64, Change)>,
    /// Keys and versions that it wrote and overwrote itself before it committed.
    pub overwritten: Vec<(u64, u64)>,
    /// Keys and versions written by its failed attempts, or by itself if it rolled back.
    pub aborted: Vec<(u64, u64)>,
    /// True if it asked for a snapshot ([`terms::Mode::Snapshot`]): it may miss transactions that
    /// ended before it began.
    pub snapshot: bool,
}

impl Entry {
    /// It has to see all transactions that ended before this moment: its beginning, or 0 if it
    /// reads a snapshot.
    pub(crate) fn not_before(&self) -> u64 {
        if self.snapshot { 0 } else { self.began }
    }
}

/// Recorded transactions, with the rows before and after them.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Rows before the first transaction, with version and tag.
    pub initial: BTreeMap<u64, (u64, u64)>,
    /// The transactions, in any order.
    pub entries: Vec<Entry>,
    /// Rows after the last transaction, with their versions, if known.
    pub last: Option<BTreeMap<u64, u64>>,
    /// True if the scheme keeps the order of real time from epoch to epoch only
    /// ([`concurrency::Scheme::STRICT`]).
    pub by_epochs: bool,
    /// True if stamps order the versions of each key and nothing else: those of several instances.
    pub orders_versions_only: bool,
}

/// Statistics of a checked history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Transactions with changes.
    pub writers: usize,
    /// Observations of rows.
    pub rows_seen: usize,
    /// Observations of absence.
    pub absences_seen: usize,
    /// True if the checker gave up: there were more possibilities than it tries, and those that it
    /// tried contain no violation.
    pub undecided: bool,
}

/// A violation that a history contains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// No serial order explains what was seen.
    #[error("transactions that each come before the next, and the last before the first: {0}")]
    Cycle(String),
    /// No place in the key's chain of versions explains what was seen.
    #[error("entry {entry} saw {seen:?} of key {key}, which it cannot have seen: {chain}")]
    Impossible {
        /// Place of the reader in the history.
        entry: usize,
        /// The key.
        key: u64,
        /// The observation.
        seen: Seen,
        /// The versions of the key.
        chain: String,
    },
    /// A transaction saw a version that no committed transaction left behind.
    #[error("entry {entry} saw version {version} of key {key}, {origin}")]
    NeverCommitted {
        /// Place of the reader in the history.
        entry: usize,
        /// The key.
        key: u64,
        /// The version that it saw.
        version: u64,
        /// The origin of the version.
        origin: Origin,
    },
    /// By the stamps, a change happened where it is impossible, such as a deletion after a
    /// deletion.
    #[error("by their stamps, changes of key {key} are {chain}")]
    BrokenChain {
        /// The key.
        key: u64,
        /// Its changes.
        chain: String,
    },
    /// The last rows are not those that were written last.
    #[error("key {key} ends with {found:?} and was written last as {written:?}")]
    LostWrite {
        /// The key.
        key: u64,
        /// The version of the row found.
        found: Option<u64>,
        /// The version of the last write.
        written: Option<u64>,
    },
    /// Stamps or epochs contradict the order of commits.
    #[error("stamp {second:?} of entry {after} is not behind {first:?} of entry {before} ({reason:?})")]
    Stamps {
        /// Place of the earlier transaction.
        before: usize,
        /// Place of the later one.
        after: usize,
        /// Its stamp.
        first: Stamp,
        /// The other's.
        second: Stamp,
        /// Why one comes before the other.
        reason: Reason,
    },
}

/// Origin of a version that no committed transaction left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An attempt that did not commit: an aborted read, Adya's G1a.
    Aborted,
    /// A transaction that overwrote it before it committed: an intermediate read, Adya's G1b.
    Overwritten,
    /// No transaction wrote the version, or it contradicts the reader's own changes.
    Nowhere,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Origin::Aborted => "which was aborted",
            Origin::Overwritten => "which its writer overwrote before it committed",
            Origin::Nowhere => "which nobody wrote, or which contradicts its own changes",
        })
    }
}

/// The versions of one key: place 0 is the initial state, place `n` the state after the `n`th
/// change.
struct Chain {
    states: Vec<Option<(u64, u64)>>,
    /// The transactions that made the changes: `writers[n]` changed place `n` to place `n + 1`.
    writers: Vec<usize>,
}

impl Chain {
    fn fits(&self, place: usize, seen: Seen) -> bool {
        match (seen, self.states[place]) {
            (Seen::Absent, state) => state.is_none(),
            (Seen::Present, state) => state.is_some(),
            (Seen::Version(version), state) => state.is_some_and(|(its, _)| its == version),
            (Seen::NotTagged(tag), state) => state.is_none_or(|(_, its)| its != tag),
        }
    }

    fn text(&self, history: &History) -> String {
        let mut text = format!("{:?}", self.states[0]);
        for (writer, state) in self.writers.iter().zip(&self.states[1..]) {
            let stamp = history.entries[*writer].stamp.unwrap_or(Stamp(0)).0;
            text += &format!(", {state:?} by entry {writer} at {stamp:#x}");
        }
        text
    }
}

/// An observation with its candidate places in the key's chain.
#[derive(Clone)]
struct OpenObservation {
    entry: usize,
    key: u64,
    seen: Seen,
    places: Vec<usize>,
}

/// Checks that the history is serializable and strict, and that its stamps are in order.
pub fn check(history: &History) -> Result<Report, Violation> {
    let chains = chains(history)?;
    let mut checker = Checker { history, chains: &chains, report: Report::default(), guesses: 0 };
    checker.check_last()?;
    checker.check_stamps_of_chains()?;
    checker.run()?;
    Ok(checker.report)
}

/// True if both committed, in different epochs.
fn epochs_differ(first: &Entry, second: &Entry) -> bool {
    let epoch = |entry: &Entry| entry.stamp.map(Stamp::epoch);
    epoch(first).zip(epoch(second)).is_some_and(|(first, second)| first != second)
}

/// Orders the changes of every key by stamp.
fn chains(history: &History) -> Result<BTreeMap<u64, Chain>, Violation> {
    let mut chains: BTreeMap<u64, Chain> = BTreeMap::new();
    let mut changes: BTreeMap<u64, Vec<(Stamp, usize, Change)>> = BTreeMap::new();
    for (number, entry) in history.entries.iter().enumerate() {
        for (key, change) in &entry.writes {
            let stamp = entry.stamp.expect("who rolled back changed nothing");
            changes.entry(*key).or_default().push((stamp, number, *change));
        }
        for (key, _) in &entry.reads {
            changes.entry(*key).or_default();
        }
    }
    for (key, mut list) in changes {
        list.sort_by_key(|(stamp, number, _)| (*stamp, *number));
        let mut chain = Chain { states: vec![history.initial.get(&key).copied()], writers: Vec::new() };
        let mut legal = list.windows(2).all(|pair| pair[0].0 < pair[1].0);
        for (_, number, change) in &list {
            let was = chain.states.last().is_some_and(Option::is_some);
            let (needed, state) = match *change {
                Change::Insert { version, tag } => (false, Some((version, tag))),
                Change::Update { version, tag } => (true, Some((version, tag))),
                Change::Delete => (true, None),
            };
            legal &= was == needed;
            chain.states.push(state);
            chain.writers.push(*number);
        }
        if !legal {
            return Err(Violation::BrokenChain { key, chain: chain.text(history) });
        }
        chains.insert(key, chain);
    }
    Ok(chains)
}

struct Checker<'h> {
    history: &'h History,
    chains: &'h BTreeMap<u64, Chain>,
    report: Report,
    guesses: u32,
}

impl Checker<'_> {
    fn check_last(&self) -> Result<(), Violation> {
        let Some(last) = &self.history.last else { return Ok(()) };
        let initial = self.history.initial.keys();
        for key in self.chains.keys().chain(last.keys()).chain(initial) {
            let state = match self.chains.get(key) {
                Some(chain) => chain.states.last().copied().flatten(),
                None => self.history.initial.get(key).copied(),
            };
            let (found, written) = (last.get(key).copied(), state.map(|(version, _)| version));
            if found != written {
                return Err(Violation::LostWrite { key: *key, found, written });
            }
        }
        Ok(())
    }

    fn check_stamps_of_chains(&self) -> Result<(), Violation> {
        for (key, chain) in self.chains {
            for pair in chain.writers.windows(2) {
                self.check_stamps(pair[0], pair[1], Reason::Overwrites(*key))?;
            }
        }
        Ok(())
    }

    /// Stamps ascend along overwrites and reads of rows; epochs do not descend otherwise.
    fn check_stamps(&self, before: usize, after: usize, reason: Reason) -> Result<(), Violation> {
        let entries = &self.history.entries;
        let stamps = (entries[before].stamp, entries[after].stamp);
        let (Some(first), Some(second), false) = (stamps.0, stamps.1, self.history.orders_versions_only)
        else {
            return Ok(());
        };
        let fine = match reason {
            Reason::Overwrites(_) | Reason::Reads(_) => first < second,
            Reason::ReadsAbsence(_) | Reason::ReadBefore(_) | Reason::Earlier => {
                first.epoch() <= second.epoch()
            }
        };
        if fine { Ok(()) } else { Err(Violation::Stamps { before, after, first, second, reason }) }
    }

    fn run(&mut self) -> Result<(), Violation> {
        let entries = &self.history.entries;
        let mut order = Order::new(entries.len());
        for (key, chain) in self.chains {
            for pair in chain.writers.windows(2) {
                self.add(&mut order, pair[0], pair[1], Reason::Overwrites(*key))?;
            }
        }
        for (before, first) in entries.iter().enumerate() {
            for (after, second) in entries.iter().enumerate() {
                if first.ended >= second.not_before() {
                    continue;
                }
                self.check_stamps(before, after, Reason::Earlier)?;
                if !self.history.by_epochs || epochs_differ(first, second) {
                    self.add(&mut order, before, after, Reason::Earlier)?;
                }
            }
        }
        let mut open = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            self.report.writers += usize::from(!entry.writes.is_empty());
            for (key, seen) in &entry.reads {
                open.push(self.observation(number, *key, *seen)?);
            }
        }
        self.settle(&mut order, &mut open)?;
        if !open.is_empty() && !self.guess(order, open) && self.guesses < GUESSES_MAX {
            return Err(Violation::Cycle("every way to explain what was seen absent".into()));
        }
        self.report.undecided = self.guesses >= GUESSES_MAX;
        Ok(())
    }

    /// The observation with its candidate places.
    fn observation(&mut self, entry: usize, key: u64, seen: Seen) -> Result<OpenObservation, Violation> {
        let chain = &self.chains[&key];
        match seen {
            Seen::Absent | Seen::NotTagged(_) => self.report.absences_seen += 1,
            Seen::Present | Seen::Version(_) => self.report.rows_seen += 1,
        }
        let own = chain.writers.iter().position(|writer| *writer == entry);
        let mut places: Vec<usize> =
            (0..chain.states.len()).filter(|place| chain.fits(*place, seen)).collect();
        if let (true, Seen::Version(version)) = (places.is_empty(), seen) {
            return Err(Violation::NeverCommitted { entry, key, version, origin: self.origin(key, version) });
        }
        if self.history.by_epochs {
            // An observation of one key is at least as new as the transaction's beginning.
            let entries = &self.history.entries;
            let began = entries[entry].began;
            places.retain(|place| chain.writers[*place..].iter().all(|later| entries[*later].ended >= began));
        }
        // A transaction that changes a key saw the state just before the change.
        if let Some(own) = own {
            places.retain(|place| *place == own);
        }
        if places.is_empty() {
            return Err(Violation::Impossible { entry, key, seen, chain: chain.text(self.history) });
        }
        Ok(OpenObservation { entry, key, seen, places })
    }

    fn origin(&self, key: u64, version: u64) -> Origin {
        let entries = &self.history.entries;
        if entries.iter().any(|entry| entry.aborted.contains(&(key, version))) {
            Origin::Aborted
        } else if entries.iter().any(|entry| entry.overwritten.contains(&(key, version))) {
            Origin::Overwritten
        } else {
            Origin::Nowhere
        }
    }

    /// Fixes the observations that have one place left, and strikes out places that contradict the
    /// order, until nothing changes. `open` keeps the observations that still have several.
    fn settle(&self, order: &mut Order, open: &mut Vec<OpenObservation>) -> Result<(), Violation> {
        loop {
            let mut progress = false;
            let mut rest = Vec::new();
            for mut one in open.drain(..) {
                let chain = &self.chains[&one.key];
                let before = one.places.len();
                one.places.retain(|place| {
                    let written = place.checked_sub(1).map(|index| chain.writers[index]);
                    let too_late = written.is_some_and(|writer| order.reaches(one.entry, writer));
                    let overwriter = chain.writers.get(*place).filter(|writer| **writer != one.entry);
                    let too_early = overwriter.is_some_and(|writer| order.reaches(*writer, one.entry));
                    before == 1 || !too_late && !too_early
                });
                match *one.places {
                    [] => return Err(self.impossible(&one)),
                    [place] => {
                        self.fix(order, &one, place)?;
                        progress = true;
                    }
                    _ => {
                        progress |= one.places.len() < before;
                        rest.push(one);
                    }
                }
            }
            *open = rest;
            if !progress || open.is_empty() {
                return Ok(());
            }
        }
    }

    fn impossible(&self, one: &OpenObservation) -> Violation {
        let chain = self.chains[&one.key].text(self.history);
        Violation::Impossible { entry: one.entry, key: one.key, seen: one.seen, chain }
    }

    /// Adds the order that follows from an observation at this place.
    fn fix(&self, order: &mut Order, one: &OpenObservation, place: usize) -> Result<(), Violation> {
        let chain = &self.chains[&one.key];
        if place > 0 {
            let writer = chain.writers[place - 1];
            let reason = match one.seen {
                Seen::Present | Seen::Version(_) => Reason::Reads(one.key),
                Seen::Absent | Seen::NotTagged(_) => Reason::ReadsAbsence(one.key),
            };
            self.add(order, writer, one.entry, reason)?;
            self.check_stamps(writer, one.entry, reason)?;
        }
        if let Some(writer) = chain.writers.get(place).filter(|writer| **writer != one.entry) {
            self.add(order, one.entry, *writer, Reason::ReadBefore(one.key))?;
            self.check_stamps(one.entry, *writer, Reason::ReadBefore(one.key))?;
        }
        Ok(())
    }

    fn add(&self, order: &mut Order, from: usize, to: usize, reason: Reason) -> Result<(), Violation> {
        order.add(from, to, reason).map_err(|cycle| Violation::Cycle(self.describe(&cycle)))
    }

    fn describe(&self, cycle: &Cycle) -> String {
        let mut text = String::new();
        for (number, reason) in cycle {
            let entry = &self.history.entries[*number];
            text += &format!("\n  entry {number} {entry:?}\n    -> {reason:?}");
        }
        text
    }

    /// Tries the places of open observations; true if some choice gives no cycle.
    fn guess(&mut self, order: Order, open: Vec<OpenObservation>) -> bool {
        let Some(first) = open.first() else { return true };
        for place in first.places.clone() {
            if self.guesses >= GUESSES_MAX {
                return false;
            }
            self.guesses += 1;
            let (mut order, mut open) = (order.clone(), open.clone());
            open[0].places = vec![place];
            if self.settle(&mut order, &mut open).is_ok() && self.guess(order, open) {
                return true;
            }
        }
        false
    }
}
