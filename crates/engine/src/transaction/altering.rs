//! Changes of tables within a transaction, together with rows (decision 0119).
//!
//! The tables that a transaction makes are tables like others, that no other transaction knows. In
//! a durable database, the commit is in this order:
//!
//! 1. The directory's manifest gets two descriptions: the tables before the transaction, and after
//!    it.
//! 2. The transaction commits like others. Its record begins with the decision that the later
//!    description counts.
//! 3. When the record is durable, the manifest gets the later description alone.
//!
//! An opening between 1 and 3 looks for the decision in the log (`recovery/opening.rs`). Until 3,
//! checkpoints carry the decision along. Tables that are gone lose their rows as dropped ones do.

use boundary::directory::description::{Description, NOT_COUNTED};
use boundary::directory::undecided::Undecided;
use boundary::{ChangeError, Decision, GlobalId, SchemaBuilder, TableChanges, TableHold};
use concurrency::Scheme;
use platform::{Code, Nanos, Platform};
use redo_log::Target;
use std::sync::atomic::Ordering;
use terms::{Abort, Epoch, Fault, Mode, Stamp};

use super::adding::{add_table, description_to_change};
use super::altered::AlteredTables;
use super::{Transaction, end_commit};
use crate::durable::codec::TableCodec;
use crate::durable::global::Item;
use crate::durable::{RedoWriter, not_durable};
use crate::tables::table_list::{Changes, End, TableList, Turn};

/// Time between two checks if other transactions have ended.
const PAUSE_NANOS: u64 = 50_000;

/// The upper half of the ids of transactions that change tables.
const OF_TABLES: u128 = (u64::MAX as u128) << 64;

/// The id of the transaction that changes tables whose number in its directory is this.
fn id_of(number: u32) -> GlobalId {
    GlobalId(OF_TABLES | u128::from(number))
}

/// True if this is the id of a transaction that changes tables.
pub(crate) fn is_of_tables(id: GlobalId) -> bool {
    id.0 & OF_TABLES == OF_TABLES
}

/// The description of a directory after a transaction.
struct DecidedDescription {
    transaction: GlobalId,
    after: Description,
}

impl<'i, P: Platform, S: Scheme<P>> Transaction<'_, 'i, P, S> {
    fn changes(&self) -> Option<(&'i TableList<P>, &'i Changes<P>)> {
        let tables = self.scratch.tables?;
        Some((tables, tables.changes()?))
    }

    /// As [`boundary::AnyVerbs::hold_tables`].
    pub(super) fn hold(&mut self, hold: TableHold) -> bool {
        let c = self.session.core();
        let Some((_, changes)) = self.changes() else { return false };
        if self.scratch.altered.is_some() || !changes.begin_conversion(c) {
            return false;
        }
        self.scratch.altered = Some(Box::new(AlteredTables { made: Vec::new(), _hold: hold }));
        true
    }

    /// As [`boundary::AnyVerbs::make_table`].
    pub(super) fn make(&mut self, mut schema: SchemaBuilder) -> Result<usize, ChangeError> {
        let Some((tables, changes)) = self.changes() else { return Err(ChangeError::Unsupported) };
        let (Some(declared), Some(_)) = (schema.tables.pop(), &self.scratch.altered) else {
            return Err(ChangeError::NoSuchTable);
        };
        let c = self.session.core();
        let durable = self.redo.as_ref().map(|redo| redo.durable);
        let turn = changes.turn(c);
        let number = add_table(self.session, tables, durable, &turn, declared, None)?;
        drop(turn);
        self.session.learn_tables();
        self.scratch.altered.iter_mut().for_each(|altered| altered.made.push(number));
        Ok(number)
    }

    /// As [`boundary::AnyVerbs::await_others`].
    pub(super) fn await_all_others(&mut self, until: Nanos) -> bool {
        let c = self.session.core();
        // SeqCst: pairs with the fence in `storage::Participant::enter`: who enters in a later
        // epoch than the one that is read next finds what the caller has published.
        P::fence(c, Ordering::SeqCst);
        let epochs = self.session.instance().epochs();
        let (since, worker) = (epochs.current(c), self.session.worker().local.worker());
        while epochs.horizon_of_others(c, worker) <= since {
            if P::now(c) >= until {
                return false;
            }
            if !epochs.try_advance(c) || epochs.horizon_of_others(c, worker) <= since {
                P::rest(c, PAUSE_NANOS);
            }
        }
        true
    }

    /// As [`boundary::AnyVerbs::began_after`].
    pub(super) fn entered_after(&mut self, epoch: Epoch) -> bool {
        self.session.worker().local.epoch() > epoch
    }

    /// As [`boundary::AnyVerbs::all_began_after`].
    pub(super) fn all_entered_after(&self, epoch: Epoch) -> bool {
        self.session.instance().epochs().horizon(self.session.core()) > epoch
    }

    /// As [`boundary::AnyVerbs::epoch_now`].
    pub(super) fn current_epoch(&self) -> Epoch {
        let c = self.session.core();
        // SeqCst: as in `await_all_others`.
        P::fence(c, Ordering::SeqCst);
        self.session.instance().epochs().current(c)
    }

    /// As [`boundary::AnyVerbs::give_up_tables`].
    #[cold]
    pub(super) fn give_up(&mut self) {
        let Some(altered) = self.scratch.altered.take() else { return };
        let Some((_, changes)) = self.changes() else { return };
        let c = self.session.core();
        let turn = changes.turn(c);
        if let Some(redo) = &self.redo {
            let mut description = turn.description();
            let ids: Vec<_> = redo.durable.codecs.get(c).iter().map(|codec| codec.id).collect();
            // No record names them.
            description.tables.retain(|table| altered.made.iter().all(|made| ids[*made] != table.id));
            turn.describe(description);
        }
        self.end_tables(changes, altered.made.iter().copied());
        drop(turn);
        changes.end_conversion(c);
    }

    /// Lets the rows of tables go that no other transaction uses. The caller has the turn.
    fn end_tables(&mut self, changes: &Changes<P>, tables: impl Iterator<Item = usize>) {
        let c = self.session.core();
        for table in tables {
            changes.mark(c, table, End::Replaced);
            changes.set_gone(c, table);
            changes.begin_leaving(c, table, self.session.instance().epochs().current(c));
        }
    }

    /// As [`boundary::AnyVerbs::commit_tables`].
    #[cold]
    pub(super) fn commit_altered(&mut self, changed: &TableChanges) -> Result<(), Abort> {
        self.look()?;
        let Some((tables, changes)) = self.changes().filter(|_| self.scratch.altered.is_some()) else {
            return self.misuse("the transaction changes no tables");
        };
        let c = self.session.core();
        P::code(c, Code::Commit);
        let turn = changes.turn(c);
        let descriptions = match &self.redo {
            Some(redo) if !changed.is_empty() => {
                Some(describe_both(c, redo, changes, &turn, (tables, changed), &self.scratch.altered)?)
            }
            _ => None,
        };
        let stamp = self.commit_rows(changes, descriptions.as_ref().map(|both| both.transaction));
        self.begin_again();
        let stamp = stamp?;
        let all_made =
            self.scratch.altered.as_mut().map_or(Vec::new(), |altered| std::mem::take(&mut altered.made));
        let durable = self.redo.as_ref().map_or(Ok(()), |redo| {
            let target = Target { epoch: stamp.epoch().0, deadline: None, by_epoch: true };
            let waited = redo.journal().wait(c, self.session.instance().epochs(), target);
            waited.map(drop).map_err(|error| not_durable(&error))
        });
        if let (Some(decided), Some(redo), Ok(())) = (descriptions, &self.redo, &durable) {
            settle(c, redo, changes, &turn, decided);
        }
        let abandoned = all_made.into_iter().filter(|made| !changed.made.contains(made));
        self.end_tables(changes, abandoned.chain(changed.gone.iter().copied()));
        durable
    }

    /// Commits the rows, with the decision of a transaction.
    fn commit_rows(&mut self, changes: &Changes<P>, decided: Option<GlobalId>) -> Result<Stamp, Abort> {
        let inner = self.inner.take().expect("a transaction is there until it ends");
        let prepared = S::prepare(inner, &mut self.session.context());
        let committed = prepared.and_then(|prepared| {
            let mut cx = self.session.context();
            let Some(redo) = &mut self.redo else { return Ok(S::commit(prepared, &mut cx)) };
            redo.clear();
            if let Some(global) = decided {
                redo.item(&Item::Decision(Decision { global, participants: Vec::new() }));
            }
            S::redo(&prepared, &mut cx, *redo);
            let reserved = redo.reserve(cx.c).map_err(Abort::OutOfMemory);
            if let Some(refusal) = redo.refusal().or(reserved.err()) {
                S::rollback(prepared, &mut cx);
                return Err(refusal);
            }
            let Some(global) = decided else {
                let stamp = S::commit(prepared, &mut cx);
                redo.append(cx.c, &cx.worker.local, stamp);
                return Ok(stamp);
            };
            // A transaction that has changed no rows has not announced its commit.
            let (c, local) = (cx.c, &mut cx.worker.local);
            let announced = local.announced_commit().unwrap_or_else(|| local.announce_commit(c));
            changes.note_decision(c, global);
            let stamp = S::commit(prepared, &mut cx).max(Stamp(announced.first_stamp()));
            redo.append(cx.c, &cx.worker.local, stamp);
            Ok(stamp)
        });
        end_commit(self.session);
        committed
    }

    /// Goes on as a transaction that has done nothing.
    fn begin_again(&mut self) {
        self.session.enter();
        self.inner = Some(S::begin(&mut self.session.context(), Mode::Single));
        self.attempt = self.session.next_attempt().max(1);
        // What comes now cannot fail: what has happened has happened.
        (self.failed, self.deadline) = (None, None);
    }
}

/// Step 1: gives the directory the descriptions before and after the transaction.
fn describe_both<P: Platform>(
    c: P::Core,
    redo: &RedoWriter<'_, P>,
    changes: &Changes<P>,
    turn: &Turn<'_, P>,
    (tables, changed): (&TableList<P>, &TableChanges),
    altered: &Option<Box<AlteredTables>>,
) -> Result<DecidedDescription, Abort> {
    let codecs: &[TableCodec] = redo.durable.codecs.get(c);
    debug_assert_eq!(codecs.len(), tables.get().len(), "each table has a codec");
    let ids = |numbers: &[usize]| numbers.iter().map(|number| codecs[*number].id).collect::<Vec<_>>();
    let all_made = ids(altered.as_ref().map_or(&[], |altered| &altered.made));
    let (made, gone) = (ids(&changed.made), ids(&changed.gone));
    let mut after = description_to_change(c, turn, redo.durable);
    let number = after.new_id().map_err(|error| Abort::Storage(error.to_string()))?;
    let mut before = after.clone();
    before.tables.retain(|table| !all_made.contains(&table.id));
    for table in &mut after.tables {
        table.continued_by = table.continued_by.filter(|id| !gone.contains(id));
        if made.contains(&table.id) {
            table.dropped = None;
        } else if gone.contains(&table.id) {
            table.dropped = Some(NOT_COUNTED);
        }
    }
    let transaction = id_of(number);
    let both = (before.encode(), after.encode());
    let bytes = match changes.has_fault(Fault::EarlyTables) {
        true => both.1,
        false => Undecided { transaction, before: &both.0, after: &both.1 }.encode(),
    };
    // An id is given out once, whatever becomes of the transaction.
    let mut known = turn.description();
    known.next_id = after.next_id;
    turn.describe(known);
    redo.journal().describe(c, bytes).map_err(|error| match redo.journal().stopped(c) {
        Some(_) => not_durable(&error),
        None => Abort::Storage(format!("the tables are not changed: {error}")),
    })?;
    Ok(DecidedDescription { transaction, after })
}

/// Step 3: the commit is durable, and the later description is all that the directory has to have.
/// If files refuse, it has both until the next change, or the next opening.
fn settle<P: Platform>(
    c: P::Core,
    redo: &RedoWriter<'_, P>,
    changes: &Changes<P>,
    turn: &Turn<'_, P>,
    decided: DecidedDescription,
) {
    let DecidedDescription { transaction, after } = decided;
    if redo.journal().describe(c, after.encode()).is_ok() {
        changes.forget_decision(c, transaction);
    }
    turn.describe(after);
}
