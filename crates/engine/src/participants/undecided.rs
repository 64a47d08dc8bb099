//! Parts of transactions over several databases that are prepared and not finished, and decisions
//! that are not forgotten.
//!
//! A durable database keeps prepared parts itself, and their callers have numbers of them: so a
//! checkpoint can copy the rows that a part holds as they were before it
//! ([`concurrency::Redo::before`]), with the latch held, without which no part is finished. And it
//! can carry the records of parts and decisions along: they are left in the log again, behind the
//! checkpoint's cut.
//!
//! The parts that a checkpoint carries. A checkpoint stands for all records up to an epoch. It
//! carries the parts whose record of preparation may be of that epoch or an earlier one, and whose
//! end will have a record of a later epoch. A part that is ending while the checkpoint reads this
//! list has a later one: a part that announced an earlier epoch has ended, because the checkpoint
//! has waited until that epoch was complete, and the end is noted here before the announcement is
//! retracted. Parts that have ended are kept with the epoch of the end until the epoch is durable,
//! and while a checkpoint begins: the next checkpoint stands for durable epochs at least.

use boundary::{Decision, GlobalId, PartOf};
use concurrency::{Before, Context, Scheme};
use platform::{OutOfMemory, Platform};
use redo_log::Spares;
use storage::Latched;
use terms::{Epoch, Fault, Faults, Stamp};

/// Least number of ended parts that are remembered before those that are durable are forgotten.
const ENDED_LEAST: usize = 64;

/// The record of a prepared part.
pub(crate) struct PartRecord {
    pub part: PartOf,
    /// The record's stamp.
    pub stamp: Stamp,
    /// The content of the record.
    pub body: Vec<u8>,
}

/// A part that is not finished.
struct Part<P: Platform, T> {
    /// The part as the scheme prepared it, and the memory for the record of its end, until a
    /// session finishes the part.
    prepared: Option<(T, Spares<P>)>,
    /// `None` if the log knows nothing of the part.
    record: Option<PartRecord>,
}

struct State<P: Platform, T> {
    /// By number.
    parts: Vec<Option<Part<P, T>>>,
    free: Vec<usize>,
    /// Parts that have ended, and the epochs of their ends.
    ended: Vec<(Epoch, PartRecord)>,
    /// How many of them there are when those that are durable are forgotten next: looking costs a
    /// constant time a part.
    forget_at: usize,
    /// Decisions that are not forgotten, and their stamps.
    decisions: Vec<(Decision, Stamp)>,
    /// Parts in doubt that were found when the database was opened, until a session asks for them.
    in_doubt: Vec<(PartOf, usize)>,
}

/// A prepared part that a session takes, to finish it.
pub(crate) struct TakenPart<P: Platform, T> {
    pub prepared: T,
    /// Memory for the record of its end.
    pub spares: Spares<P>,
    /// The part and the stamp of its record, if the log knows of it.
    pub record: Option<(PartOf, Stamp)>,
}

/// Parts and decisions that a checkpoint carries.
#[derive(Default)]
pub(crate) struct Carried {
    /// Bodies of the records of parts.
    pub parts: Vec<Vec<u8>>,
    pub decisions: Vec<Decision>,
}

/// The undecided parts of a durable database.
pub(crate) struct Undecided<P: Platform, S: Scheme<P>> {
    state: Latched<P, State<P, S::Prepared>>,
    /// Only a mutant breaks rules.
    faults: Faults,
}

impl<P: Platform, S: Scheme<P>> Undecided<P, S> {
    /// No parts yet.
    pub(crate) fn new(c: P::Core, decisions: Vec<Decision>, faults: Faults) -> Result<Self, OutOfMemory> {
        let (parts, free, ended, in_doubt) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let decisions = decisions.into_iter().map(|decision| (decision, Stamp(0))).collect();
        let state = State { parts, free, ended, forget_at: ENDED_LEAST, decisions, in_doubt };
        Ok(Undecided { state: Latched::new(c, "prepared parts", state)?, faults })
    }

    /// True if a mutant does not break the rule.
    pub(crate) fn has_fault(&self, fault: Fault) -> bool {
        self.faults.has(fault)
    }

    /// Keeps a prepared part, with memory for the record of its end, under the number that comes
    /// out. Ends up to epoch `durable` are durable, if that is given, and no checkpoint had begun
    /// after that was read.
    pub(crate) fn keep(
        &self,
        c: P::Core,
        prepared: S::Prepared,
        spares: Spares<P>,
        record: Option<PartRecord>,
        durable: Option<u64>,
    ) -> usize {
        self.state.with(c, |state| {
            if let Some(durable) = durable.filter(|_| state.ended.len() >= state.forget_at) {
                state.ended.retain(|(epoch, _)| epoch.0 > durable);
                state.forget_at = (2 * state.ended.len()).max(ENDED_LEAST);
            }
            let part = Some(Part { prepared: Some((prepared, spares)), record });
            match state.free.pop() {
                Some(number) => {
                    state.parts[number] = part;
                    number
                }
                None => {
                    state.parts.push(part);
                    state.parts.len() - 1
                }
            }
        })
    }

    /// Takes a part, to finish it. If the log knows of the part, the caller says when that [has
    /// ended](Self::ended).
    pub(crate) fn take(&self, c: P::Core, number: usize) -> TakenPart<P, S::Prepared> {
        self.state.with(c, |state| {
            let part = state.parts[number].as_mut().expect("a part is finished once");
            let (prepared, spares) = part.prepared.take().expect("a part is finished once");
            let record = part.record.as_ref().map(|record| (record.part, record.stamp));
            if record.is_none() {
                state.parts[number] = None;
                state.free.push(number);
            }
            TakenPart { prepared, spares, record }
        })
    }

    /// The record of a part's end is left, and is of this epoch; its commit is announced still.
    pub(crate) fn ended(&self, c: P::Core, number: usize, epoch: Epoch) {
        self.state.with(c, |state| {
            if let Some(record) = state.parts[number].take().and_then(|part| part.record) {
                state.ended.push((epoch, record));
            }
            state.free.push(number);
        });
    }

    /// True if all parts of a transaction that the log knows of have ended, with epochs up to
    /// `durable`.
    pub(crate) fn is_over(&self, c: P::Core, global: GlobalId, durable: u64) -> bool {
        self.state.with(c, |state| {
            let undecided = state.parts.iter().flatten().filter_map(|part| part.record.as_ref());
            let late = state.ended.iter().filter(|(epoch, _)| epoch.0 > durable).map(|(_, record)| record);
            undecided.chain(late).all(|record| record.part.global != global)
        })
    }

    /// The record of a decision is left, and has this stamp; its commit is announced still.
    pub(crate) fn decided(&self, c: P::Core, decision: Decision, stamp: Stamp) {
        self.state.with(c, |state| state.decisions.push((decision, stamp)));
    }

    /// Takes a decision out; its stamp, or `None` if it is not known.
    pub(crate) fn forget(&self, c: P::Core, is_it: impl Fn(&Decision) -> bool) -> Option<Stamp> {
        self.state.with(c, |state| {
            let place = state.decisions.iter().position(|(decision, _)| is_it(decision))?;
            Some(state.decisions.swap_remove(place).1)
        })
    }

    /// The decisions that are not forgotten.
    pub(crate) fn decisions(&self, c: P::Core) -> Vec<Decision> {
        self.state.with(c, |state| state.decisions.iter().map(|(decision, _)| decision.clone()).collect())
    }

    /// Keeps a part in doubt until a session asks for it.
    pub(crate) fn doubt(&self, c: P::Core, part: PartOf, number: usize) {
        self.state.with(c, |state| state.in_doubt.push((part, number)));
    }

    /// The parts in doubt that no session has asked for yet.
    pub(crate) fn take_in_doubt(&self, c: P::Core) -> Vec<(PartOf, usize)> {
        self.state.with(c, |state| std::mem::take(&mut state.in_doubt))
    }

    /// Parts and decisions that a checkpoint has to carry which replaces all records up to epoch
    /// `copied`. All those epochs are complete.
    pub(crate) fn carried(&self, c: P::Core, copied: u64) -> Carried {
        if self.has_fault(Fault::CheckpointWithoutParts) {
            return Carried::default();
        }
        self.state.with(c, |state| {
            let undecided = state.parts.iter().flatten().filter_map(|part| part.record.as_ref());
            let late = state.ended.iter().filter(|(epoch, _)| epoch.0 > copied);
            let parts = undecided.map(|record| &record.body).chain(late.map(|(_, record)| &record.body));
            let decisions = state.decisions.iter().map(|(decision, _)| decision.clone());
            Carried { parts: parts.cloned().collect(), decisions: decisions.collect() }
        })
    }

    /// Rows as they were before the parts that keep them from readers: calls back with each of
    /// these primary keys of a table, and what there was, or `None` if no part keeps the row. No
    /// part is finished meanwhile. A key that is in the index no more has no row, though a part may
    /// keep readers from the gap where it was.
    pub(crate) fn before(
        &self,
        cx: &mut Context<'_, '_, P, S>,
        table: usize,
        keys: std::slice::ChunksExact<'_, u64>,
        mut with: impl FnMut(&[u64], Option<Before>),
    ) {
        self.state.with(cx.c, |state| {
            for key in keys {
                let mut prepared = state.parts.iter().flatten().filter_map(|part| part.prepared.as_ref());
                let before = prepared.find_map(|(prepared, _)| S::before(prepared, cx, table, key));
                let is_gone = || cx.tables[table].indexes[0].partition(key).get(cx.c, key).value.is_none();
                with(key, before.or_else(|| is_gone().then_some(Before::Absent)));
            }
        });
    }
}
