//! The check of a history by the crate `adya`, which infers the order of versions itself.
//!
//! Source: the crate [adya](https://crates.io/crates/adya) 0.1, after Kingsbury, Alvaro, "Elle",
//! PVLDB 2020.
//!
//! A key becomes a register. Its initial state is the register's `nil`, a row its version, and each
//! deletion a distinct value. The order of writes is that of the commit stamps, given as
//! `transaction_order`. Attempts that failed are failed operations. Each entry is a process of its
//! own; operations are in the order of real time, and a transaction on a snapshot begins before all
//! others.
//!
//! Limits: registers have no predicates and no anonymous absence. An observation that fits several
//! states of its key (absent, while the key was absent twice; some row; not with this tag) is
//! withheld, and counted. So this check finds a phantom only where the key had one such state. It
//! does not check that stamps ascend, nor the last rows. Each call leaks a few hundred bytes: names
//! of anomalies, which `adya` allocates each time.

use std::collections::BTreeMap;

use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{Opts, Valid, Workload};

use crate::history::{Change, Entry, History, Seen};

/// The result of the second checker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opinion {
    /// The anomalies by their names in the literature, each with its explanation; empty if there is
    /// none.
    pub objections: Vec<(String, String)>,
    /// Observations that the second checker received.
    pub expressed: usize,
    /// Observations that a register cannot express.
    pub withheld: usize,
}

/// A state of a key as a value of its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// The initial state.
    Initial,
    /// A state that a transaction wrote.
    Written(i64),
}

/// One state of a key: the row's version and tag, if there is a row.
struct State {
    row: Option<(u64, u64)>,
    value: Value,
}

impl State {
    fn fits(&self, seen: Seen) -> bool {
        match (seen, self.row) {
            (Seen::Absent, row) => row.is_none(),
            (Seen::Present, row) => row.is_some(),
            (Seen::Version(version), row) => row.is_some_and(|(its, _)| its == version),
            (Seen::NotTagged(tag), row) => row.is_none_or(|(_, its)| its != tag),
        }
    }
}

/// Checks with `adya` that the history is strictly serializable, or serializable if the scheme is
/// strict from epoch to epoch only.
pub fn opinion(history: &History) -> Opinion {
    let mut translation = Translation::of(history);
    let foreign = translation.history();
    let options = Opts {
        models: vec![if history.by_epochs { "serializable" } else { "strict-serializable" }.into()],
        transaction_order: Some(translation.order),
        ..Opts::default()
    };
    let report = adya::check(&foreign, Workload::RwRegister, &options);
    let mut opinion = translation.opinion;
    if report.valid == Valid::False {
        for (kind, anomalies) in &report.anomalies {
            let first = anomalies.first().map(|anomaly| anomaly.explanation.clone()).unwrap_or_default();
            opinion.objections.push((kind.clone(), first));
        }
    }
    opinion
}

/// The value of a deletion: distinct from all others and from all versions.
fn tombstone(entry: usize) -> i64 {
    i64::MIN + entry as i64
}

fn written(entry: usize, change: Change) -> i64 {
    match change {
        Change::Insert { version, .. } | Change::Update { version, .. } => version as i64,
        Change::Delete => tombstone(entry),
    }
}

struct Translation<'h> {
    history: &'h History,
    states: BTreeMap<u64, Vec<State>>,
    interner: Interner,
    // A type of `adya`.
    #[allow(clippy::disallowed_types)]
    order: std::collections::HashMap<u64, i64>,
    opinion: Opinion,
}

impl<'h> Translation<'h> {
    fn of(history: &'h History) -> Self {
        let mut states: BTreeMap<u64, Vec<State>> = BTreeMap::new();
        let initial =
            |key: &u64| vec![State { row: history.initial.get(key).copied(), value: Value::Initial }];
        for (number, entry) in history.entries.iter().enumerate() {
            for (key, _) in &entry.reads {
                states.entry(*key).or_insert_with(|| initial(key));
            }
            for (key, change) in &entry.writes {
                let row = match *change {
                    Change::Insert { version, tag } | Change::Update { version, tag } => Some((version, tag)),
                    Change::Delete => None,
                };
                let value = Value::Written(written(number, *change));
                states.entry(*key).or_insert_with(|| initial(key)).push(State { row, value });
            }
        }
        Translation {
            history,
            states,
            interner: Interner::default(),
            order: Default::default(),
            opinion: Opinion::default(),
        }
    }

    /// All operations in the order of real time. Of two at the same moment a beginning comes first:
    /// neither transaction ended before the other began.
    fn history(&mut self) -> adya::History {
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (number, entry) in self.history.entries.iter().enumerate() {
            moments.push((entry.not_before(), false, number));
            moments.push((entry.ended, true, number));
        }
        moments.sort_unstable();
        let mut operations = Vec::new();
        for (moment, ends, number) in moments {
            let entry = &self.history.entries[number];
            let failed = self.failed(entry);
            // Even processes are transactions, odd ones their failed attempts.
            let process = 2 * number as i64;
            let kind = if ends { OpType::Ok } else { OpType::Invoke };
            let value = if ends { self.transaction(number) } else { Vec::new() };
            if let (true, Some(stamp)) = (ends, entry.stamp) {
                self.order.insert(operations.len() as u64, stamp.0 as i64);
            }
            push(&mut operations, kind, process, value, moment);
            if !failed.is_empty() {
                let kind = if ends { OpType::Fail } else { OpType::Invoke };
                push(&mut operations, kind, process + 1, if ends { failed } else { Vec::new() }, moment);
            }
        }
        adya::History::from_ops(operations, std::mem::take(&mut self.interner))
    }

    /// Writes without effect: those of failed attempts, and of keys that the transaction left
    /// unchanged in the end.
    fn failed(&mut self, entry: &Entry) -> Vec<Mop> {
        let undone = entry.overwritten.iter().filter(|(key, _)| !changes(entry, *key));
        let lost = entry.aborted.iter().chain(undone);
        lost.map(|(key, version)| self.write(*key, *version as i64)).collect()
    }

    /// Reads of the transaction, then its writes.
    fn transaction(&mut self, number: usize) -> Vec<Mop> {
        let history = self.history;
        let entry = &history.entries[number];
        let mut operations = Vec::new();
        for (key, seen) in &entry.reads {
            match self.observed(number, *key, *seen) {
                Some(value) => {
                    self.opinion.expressed += 1;
                    operations.push(self.read(*key, value));
                }
                None => self.opinion.withheld += 1,
            }
        }
        for (key, version) in entry.overwritten.iter().filter(|(key, _)| changes(entry, *key)) {
            operations.push(self.write(*key, *version as i64));
        }
        for (key, change) in &entry.writes {
            operations.push(self.write(*key, written(number, *change)));
        }
        operations
    }

    /// The single state that an observation fits; `None` if there are several.
    fn observed(&self, number: usize, key: u64, seen: Seen) -> Option<Value> {
        let own = self.history.entries[number].writes.iter().find(|(its, _)| *its == key);
        let own = own.map(|(_, change)| Value::Written(written(number, *change)));
        let mut fitting =
            self.states[&key].iter().filter(|state| state.fits(seen) && Some(state.value) != own);
        match (fitting.next(), fitting.next(), seen) {
            (Some(state), None, _) => Some(state.value),
            // No transaction committed it.
            (None, _, Seen::Version(version)) => Some(Value::Written(version as i64)),
            _ => None,
        }
    }

    fn read(&mut self, key: u64, value: Value) -> Mop {
        let value = match value {
            Value::Initial => ReadValue::Nil,
            Value::Written(number) => ReadValue::Scalar(self.intern(number)),
        };
        Mop::Read { key: self.intern(key as i64), value }
    }

    fn write(&mut self, key: u64, value: i64) -> Mop {
        Mop::Write { key: self.intern(key as i64), value: self.intern(value) }
    }

    fn intern(&mut self, number: i64) -> u32 {
        self.interner.intern(Scalar::Int(number))
    }
}

fn changes(entry: &Entry, key: u64) -> bool {
    entry.writes.iter().any(|(its, _)| *its == key)
}

fn push(operations: &mut Vec<Op>, kind: OpType, process: i64, value: Vec<Mop>, moment: u64) {
    let index = operations.len() as u64;
    operations.push(Op { index, kind, process: Some(process), value, time: Some(moment as i64) });
}
