//! Parts of transactions over several databases that the log has as prepared and not as ended, and
//! decisions that are not forgotten.
//!
//! Parts and decisions may stay for long, and the log need not be kept for them: checkpoints carry
//! all of them. All changes of a part are made when it is prepared, so a copy of their undo is made
//! then.
//!
//! **Order.** A checkpoint reads where the oldest transaction under way begins in the log, from
//! which on a restart reads, and *then* copies the entries here. A worker that logs a record of a
//! part or a decision follows this order: its [owner](crate::owner) is marked as under way; the
//! record is written; the entry here is added or removed; the mark is removed. So if a restart does
//! not read a record, its entry had been added or removed when the copy was made; and a record that
//! it does read may be applied once more: the last record of a part or decision has its state. A
//! restart takes a part in the checkpoint as it is there: of the part's records before the end only
//! the compensations count by which it is undone, which are all behind the place from which it
//! reads. Those of roll-backs to savepoints come before its preparation, and do not count.

use boundary::{Decision, GlobalId, PartOf};
use platform::OutOfMemory;
use platform::files::Files;
use storage::Latched;

use crate::lsn::Lsn;

/// Least number of ended parts that are remembered before those that are durable are forgotten.
const ENDED_LEAST: usize = 64;

/// A prepared part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownPart {
    /// Its number in the log.
    pub transaction: u64,
    pub part: PartOf,
    /// The undo of its changes, as [`crate::undo::Undo::encode`] writes it.
    pub steps: Vec<u64>,
}

/// The parts and decisions at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UndecidedContent {
    pub parts: Vec<KnownPart>,
    pub decisions: Vec<Decision>,
}

struct UndecidedState {
    carried: UndecidedContent,
    /// Parts that have ended, and where their ends are in the log.
    ended: Vec<(Lsn, GlobalId)>,
    /// At this number of decisions, those that are durable are forgotten: the check costs a
    /// constant time a part.
    forget_at: usize,
}

/// The undecided parts of a database with a log, and its decisions.
pub(crate) struct Undecided<P: Files> {
    state: Latched<P, UndecidedState>,
}

impl<P: Files> Undecided<P> {
    /// The parts and decisions that a restart has found.
    pub(crate) fn new(c: P::Core, carried: UndecidedContent) -> Result<Self, OutOfMemory> {
        let state = UndecidedState { carried, ended: Vec::new(), forget_at: ENDED_LEAST };
        Ok(Undecided { state: Latched::new(c, "prepared parts", state)? })
    }

    /// The record of a part is in the log.
    pub(crate) fn prepared(&self, c: P::Core, part: KnownPart) {
        self.state.with(c, |state| state.carried.parts.push(part));
    }

    /// The end of a part is in the log, there; the log is durable up to `durable`.
    pub(crate) fn ended(&self, c: P::Core, transaction: u64, at: Lsn, durable: Lsn) {
        self.state.with(c, |state| {
            if state.ended.len() >= state.forget_at {
                state.ended.retain(|(at, _)| *at > durable);
                state.forget_at = (2 * state.ended.len()).max(ENDED_LEAST);
            }
            let parts = &mut state.carried.parts;
            if let Some(place) = parts.iter().position(|known| known.transaction == transaction) {
                state.ended.push((at, parts.swap_remove(place).part.global));
            }
        });
    }

    /// Returns true if all parts of a transaction have ended, before this place in the log.
    pub(crate) fn is_over(&self, c: P::Core, global: GlobalId, durable: Lsn) -> bool {
        self.state.with(c, |state| {
            let undecided = state.carried.parts.iter().map(|known| known.part.global);
            let late = state.ended.iter().filter(|(at, _)| *at > durable).map(|(_, global)| *global);
            undecided.chain(late).all(|other| other != global)
        })
    }

    /// A decision is in the log.
    pub(crate) fn decided(&self, c: P::Core, decision: Decision) {
        self.state.with(c, |state| state.carried.decisions.push(decision));
    }

    /// Returns true if the decision is known.
    pub(crate) fn has_decided(&self, c: P::Core, global: GlobalId) -> bool {
        self.state.with(c, |state| state.carried.decisions.iter().any(|decision| decision.global == global))
    }

    /// The log says that a decision is forgotten.
    pub(crate) fn forgotten(&self, c: P::Core, global: GlobalId) {
        self.state.with(c, |state| state.carried.decisions.retain(|decision| decision.global != global));
    }

    /// The decisions that are not forgotten.
    pub(crate) fn decisions(&self, c: P::Core) -> Vec<Decision> {
        self.state.with(c, |state| state.carried.decisions.clone())
    }

    /// All of it, for a checkpoint.
    pub(crate) fn carried(&self, c: P::Core) -> UndecidedContent {
        self.state.with(c, |state| state.carried.clone())
    }
}
