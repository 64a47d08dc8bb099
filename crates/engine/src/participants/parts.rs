//! Parts of transactions over several databases: how they are kept between being prepared and being
//! finished, and their records in the log.
//!
//! A part with a [`PartOf`] leaves a record when it is prepared, with all of its changes, and a
//! short one when it is finished ([`crate::durable::global`]). Any other part leaves its changes
//! when it commits.

use boundary::{Commit, Decision, GlobalId, Outcome, PartOf, Vote};
use concurrency::{Context, Instance, RedoSink, RowChanges, Scheme, WorkerContext};
use platform::{OutOfMemory, Platform};
use redo_log::Spares;
use terms::{Abort, Epoch, Fault, Stamp};

use crate::durable::RedoWriter;
use crate::durable::checkpoint::Phase;
use crate::durable::global::Item;
use crate::participants::undecided::{PartRecord, TakenPart, Undecided};
use crate::tables::table_list::{End, TableList};
use crate::transaction::end_commit;

/// Epochs by which a mutant leaves records of prepared parts too late.
const EPOCHS_LATE: u64 = 4;

/// A prepared part, wherever it is kept.
pub(crate) enum KeptPart<T> {
    /// Here.
    Here(T),
    /// In the database, under this number.
    Inside(usize),
}

/// A part of a transaction over several databases that can no longer fail, and holds its rows until
/// a session of its database finishes the part: [`crate::MemorySession::finish`]. If the part is
/// dropped instead, its rows stay locked, and what it has inserted stays invisible, as long as the
/// database lives: the database cannot know whether the transaction committed.
#[must_use = "a prepared part keeps its rows locked until it is finished"]
pub struct Prepared<'d, P: Platform, S: Scheme<P>> {
    part: KeptPart<S::Prepared>,
    instance: &'d Instance<P, S>,
}

impl<'d, P: Platform, S: Scheme<P>> Prepared<'d, P, S> {
    /// A part of this instance.
    pub(crate) fn of(part: KeptPart<S::Prepared>, instance: &'d Instance<P, S>) -> Self {
        Prepared { part, instance }
    }

    /// Where it is.
    ///
    /// # Panics
    /// If the part was prepared in another instance, whose rows and tables are others.
    pub(crate) fn into_part(self, instance: &Instance<P, S>) -> KeptPart<S::Prepared> {
        assert!(std::ptr::eq(self.instance, instance), "the part was prepared in another database");
        self.part
    }
}

/// Notes whether anything changes, and how the tables have ended that change.
struct Changes<'d, P: Platform> {
    any: bool,
    tables: &'d TableList<P>,
    end: End,
}

impl<'d, P: Platform> Changes<'d, P> {
    fn none(tables: &'d TableList<P>) -> Self {
        Changes { any: false, tables, end: End::None }
    }

    fn note(&mut self, table: usize) {
        self.any = true;
        let changes = self.tables.changes();
        self.end = self.end.max(changes.map_or(End::None, |changes| changes.end(table)));
    }
}

impl<P: Platform> RedoSink<P> for Changes<'_, P> {
    fn insert(&mut self, table: usize, _: &[P::Word], _: &[u8]) {
        self.note(table);
    }

    fn update(&mut self, table: usize, _: &[P::Word], _: RowChanges<'_>, _: Option<&[u8]>, _: &[u8]) {
        self.note(table);
    }

    fn delete(&mut self, table: usize, _: &[P::Word], _: &[u8]) {
        self.note(table);
    }
}

/// The state of a session that prepared parts need.
pub(crate) struct PartKeeper<'s, 'd, P: Platform, S: Scheme<P>> {
    pub session: &'s mut WorkerContext<'d, P, S>,
    pub tables: &'d TableList<P>,
    /// The way into the log and the parts of the database, if it is durable.
    pub durable: Option<(&'s mut RedoWriter<'d, P>, &'d Undecided<P, S>)>,
}

impl<'d, P: Platform, S: Scheme<P>> PartKeeper<'_, 'd, P, S> {
    /// Takes note that there is one part more that is not finished, or one less.
    pub(crate) fn count(&self, prepared: bool) {
        if let Some(changes) = self.tables.changes() {
            changes.count_part(self.session.core(), prepared);
        }
    }

    /// Keeps what the scheme has prepared, and leaves the record of the part, if it is a part of a
    /// transaction that is known. A part that has changed a table which was dropped is undone.
    pub(crate) fn keep(
        &mut self,
        prepared: S::Prepared,
        part: Option<PartOf>,
    ) -> Result<(Prepared<'d, P, S>, Vote), (Abort, Epoch)> {
        let tables = self.tables;
        let mut cx = self.session.context();
        if tables.changes().is_some_and(|changes| changes.has_dropped()) {
            let mut changes = Changes::none(tables);
            S::redo(&prepared, &mut cx, &mut changes);
            if let Some(refusal) = changes.end.refusal() {
                return Err(self.refuse(prepared, refusal));
            }
        }
        self.count(true);
        let mut cx = self.session.context();
        let logged = match &mut self.durable {
            Some((redo, undecided)) => log_part(&mut cx, redo, undecided, &prepared, part),
            None => Ok(PartLog::default()),
        };
        let logged = match logged {
            Ok(logged) => logged,
            Err(refusal) => {
                self.count(false);
                return Err(self.refuse(prepared, refusal.into()));
            }
        };
        let mut cx = self.session.context();
        let stamp = S::prepared_at(&prepared);
        let (kept, vote) = match &mut self.durable {
            None => {
                let mut changes = Changes::none(tables);
                if part.is_some() {
                    S::redo(&prepared, &mut cx, &mut changes);
                }
                (KeptPart::Here(prepared), Vote { changes: changes.any, durable_with: Epoch(0) })
            }
            Some((redo, undecided)) => {
                let (c, durable) = (cx.c, redo.durable);
                let PartLog { changes, record, spares } = logged;
                let durable_with = match changes {
                    true => stamp,
                    false => S::reads_until(&prepared).unwrap_or(stamp),
                };
                // In this order: a checkpoint that begins later stands for these epochs.
                let ended = durable.journal.durable(c);
                let ended = (!durable.checkpoints.is(c, Phase::Turning)).then_some(ended);
                let number = undecided.keep(c, prepared, spares, record, ended);
                (KeptPart::Inside(number), Vote { changes, durable_with: durable_with.epoch() })
            }
        };
        // A prepared transaction takes another epoch when it commits.
        end_commit(self.session);
        Ok((Prepared::of(kept, self.session.instance()), vote))
    }

    /// Undoes a part that cannot be kept.
    fn refuse(&mut self, prepared: S::Prepared, refusal: Abort) -> (Abort, Epoch) {
        let mut cx = self.session.context();
        S::rollback(prepared, &mut cx);
        let epoch = cx.worker.local.epochs_shared().current(cx.c);
        end_commit(self.session);
        (refusal, epoch)
    }

    /// Finishes a part.
    pub(crate) fn finish(&mut self, part: KeptPart<S::Prepared>, outcome: Outcome<'_>) -> Option<Commit> {
        self.session.enter();
        let c = self.session.core();
        let (number, taken) = match (part, &self.durable) {
            (KeptPart::Inside(number), Some((_, undecided))) => (number, undecided.take(c, number)),
            (KeptPart::Inside(_), None) => unreachable!("only a durable database keeps parts"),
            (KeptPart::Here(prepared), _) => {
                (0, TakenPart { prepared, spares: Spares::default(), record: None })
            }
        };
        let commit = match outcome {
            Outcome::Abort => {
                self.roll_back(number, taken);
                None
            }
            Outcome::Commit => Some(self.commit(number, taken, None)),
            Outcome::Decide { global, participants } => {
                let decision = Decision { global, participants: participants.to_vec() };
                Some(self.commit(number, taken, Some(decision)))
            }
        };
        end_commit(self.session);
        self.count(false);
        commit
    }

    /// Rolls a part back. The record of that, if there is to be one, is left before the part's rows
    /// are free: what others then make of the rows is of no earlier epoch.
    fn roll_back(&mut self, number: usize, taken: TakenPart<P, S::Prepared>) {
        let TakenPart { prepared, spares, record } = taken;
        let mut ended = None;
        if let Some((redo, _)) = &mut self.durable {
            redo.give(spares);
        }
        if let (Some((part, stamp)), Some((redo, undecided))) = (record, &mut self.durable) {
            let stamp = leave(self.session, redo, undecided, stamp, &Item::Abort(part.global));
            ended = Some((*undecided, stamp.epoch()));
        }
        let mut cx = self.session.context();
        S::rollback(prepared, &mut cx);
        if let Some((undecided, epoch)) = ended {
            undecided.ended(cx.c, number, epoch);
        }
    }

    fn commit(
        &mut self,
        number: usize,
        taken: TakenPart<P, S::Prepared>,
        decision: Option<Decision>,
    ) -> Commit {
        let TakenPart { prepared, spares, record } = taken;
        let mut cx = self.session.context();
        let Some((redo, undecided)) = &mut self.durable else {
            return Commit::of(S::commit(prepared, &mut cx));
        };
        let reads_until = S::reads_until(&prepared).filter(|_| decision.is_none());
        redo.give(spares);
        redo.clear();
        if let Some(decision) = &decision {
            redo.item(&Item::Decision(decision.clone()));
        }
        match record {
            Some((part, _)) if !undecided.has_fault(Fault::UnloggedEnd) => {
                redo.item(&Item::Commit(part.global));
            }
            Some(_) => {}
            None => S::redo(&prepared, &mut cx, *redo),
        }
        let stamp = S::commit(prepared, &mut cx);
        let (c, local) = (cx.c, &cx.worker.local);
        redo.append(c, local, stamp);
        if let Some(decision) = decision {
            undecided.decided(c, decision, stamp);
        }
        if record.is_some() {
            undecided.ended(c, number, stamp.epoch());
        }
        Commit { stamp, durable_with: reads_until.unwrap_or(stamp).epoch() }
    }

    /// Leaves the decision of a transaction of which this database has no part; the epoch that has
    /// to be durable before the decision may be sent.
    pub(crate) fn decide(&mut self, decision: Decision) -> Epoch {
        let Some((redo, undecided)) = &mut self.durable else { return Epoch(0) };
        self.session.enter();
        let stamp = leave(self.session, redo, undecided, Stamp(0), &Item::Decision(decision.clone()));
        undecided.decided(self.session.core(), decision, stamp);
        end_commit(self.session);
        stamp.epoch()
    }

    /// True if this database has no part of a transaction any more that could be in doubt: none
    /// that is not finished, and none whose end could be lost.
    pub(crate) fn is_over(&self, global: GlobalId) -> bool {
        let Some((redo, undecided)) = &self.durable else { return true };
        let c = self.session.core();
        // In this order: a part that ends meanwhile counts as not durable.
        let durable = redo.journal().durable(c);
        undecided.is_over(c, global, durable)
    }

    /// Forgets a decision; whether it was known.
    pub(crate) fn forget(&mut self, global: GlobalId) -> bool {
        let Some((redo, undecided)) = &mut self.durable else { return false };
        let c = self.session.core();
        let Some(stamp) = undecided.forget(c, |decision| decision.global == global) else { return false };
        self.session.enter();
        leave(self.session, redo, undecided, stamp, &Item::Forget(global));
        end_commit(self.session);
        true
    }
}

/// The records of a part in the log.
struct PartLog<P: Platform> {
    /// True if a part of a transaction that is known changes anything.
    changes: bool,
    record: Option<PartRecord>,
    /// Memory for the record of its end.
    spares: Spares<P>,
}

impl<P: Platform> Default for PartLog<P> {
    fn default() -> Self {
        PartLog { changes: false, record: None, spares: Spares::default() }
    }
}

/// Leaves the record of a part, if it is a part of a transaction that is known, and sets memory
/// aside for the record of its end.
///
/// # Errors
/// There is no memory for these; the part is to be undone.
fn log_part<P: Platform, S: Scheme<P>>(
    cx: &mut Context<'_, '_, P, S>,
    redo: &mut RedoWriter<'_, P>,
    undecided: &Undecided<P, S>,
    prepared: &S::Prepared,
    part: Option<PartOf>,
) -> Result<PartLog<P>, OutOfMemory> {
    let (c, stamp) = (cx.c, S::prepared_at(prepared));
    redo.clear();
    if let Some(part) = part {
        redo.item(&Item::Prepare(part));
    }
    let before = redo.bytes();
    S::redo(prepared, cx, redo);
    if redo.bytes() == before {
        return Ok(PartLog::default());
    }
    match part.filter(|_| !undecided.has_fault(Fault::UnloggedPreparation)) {
        Some(part) => {
            let spares = redo.reserve_part(c)?;
            let late = if !undecided.has_fault(Fault::CommitBeforePreparation) { 0 } else { EPOCHS_LATE };
            let left_at = Stamp(Epoch(stamp.epoch().0 + late).first_stamp().max(stamp.0));
            let body = redo.append_whole(c, &cx.worker.local, left_at);
            Ok(PartLog { changes: true, record: Some(PartRecord { part, stamp, body }), spares })
        }
        None => Ok(PartLog { changes: part.is_some(), record: None, spares: redo.reserve_later(c)? }),
    }
}

/// Leaves a record of one item: of the epoch that is announced here, or of that of `least`, if that
/// is later. The caller calls [`end_commit`].
fn leave<P: Platform, S: Scheme<P>>(
    session: &mut WorkerContext<'_, P, S>,
    redo: &mut RedoWriter<'_, P>,
    undecided: &Undecided<P, S>,
    least: Stamp,
    item: &Item,
) -> Stamp {
    let cx = session.context();
    let (c, local) = (cx.c, &mut cx.worker.local);
    let stamp = least.max(Stamp(local.announce_commit(c).first_stamp()));
    let is_end = matches!(item, Item::Abort(_));
    if !is_end || !undecided.has_fault(Fault::UnloggedEnd) {
        redo.clear();
        redo.item(item);
        redo.append(c, local, stamp);
    }
    stamp
}
