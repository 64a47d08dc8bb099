//! The tables of an open database: what they are, which of them were dropped, and whose turn it is
//! to change that.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use boundary::GlobalId;
use boundary::directory::description::Description;
use platform::{LINE_BYTES, OutOfMemory, Platform};
use schema::TableDescription;
use storage::{Latched, Places, Walk};
use terms::{Abort, Conflict, Epoch, Fault, Faults};

use crate::tables::conversion::{Conversion, Reads};

/// Time between two checks if another core has changed tables.
const TURN_WAIT_NANOS: u64 = 100_000;

/// As many tables that are gone are kept in the description before some are forgotten.
const GONE_MANY: usize = 64;

/// State of a table that has ended, also in the directory, if there is one.
const GONE: u64 = 4;

/// The tables of a database, by their numbers.
pub(crate) struct TableList<P: Platform> {
    descriptions: Places<P, TableDescription>,
    /// `None` if tables are those that the database was made with.
    changes: Option<Changes<P>>,
}

/// Changes of tables while the database is open.
pub(crate) struct Changes<P: Platform> {
    /// Words: how many tables were dropped, how many of these have rows left, which table changes
    /// its form, how many transactions have decided about tables; then, a line further, one a
    /// table: how it ended ([`End`]), and whether that is for good ([`GONE`]).
    words: P::Region,
    state: Latched<P, State>,
    /// Tables that have changed their form, and the one that does.
    conversions: Places<P, Conversion>,
    faults: Faults,
}

/// How a table has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// It is there.
    None = 0,
    /// It is one form of a table that has another form, so that a transaction which has changed it
    /// tries again.
    Replaced = 1,
    /// It was dropped.
    Dropped = 2,
}

impl End {
    fn of(word: u64) -> Self {
        match word & !GONE {
            0 => End::None,
            1 => End::Replaced,
            _ => End::Dropped,
        }
    }

    /// The refusal of a commit that has changed the table, if there is one.
    pub(crate) fn refusal(self) -> Option<Abort> {
        match self {
            End::None => None,
            End::Replaced => Some(Abort::Conflict(Conflict::ReadChanged)),
            End::Dropped => Some(DROPPED),
        }
    }
}

/// The error of a commit that comes after the end of a table that it has changed.
pub(crate) const DROPPED: Abort =
    Abort::Misuse("a table that the transaction has changed was dropped before its commit");

#[derive(Default)]
struct State {
    /// True if a core changes tables.
    turn: bool,
    /// The description in the directory, if there is one.
    description: Description,
    /// Dropped tables whose rows are still there, but for those that a session is at.
    leaving: Vec<Leaving>,
    /// True if a table changes its form.
    converts: bool,
    /// The form that only transactions read which entered in this epoch, or before.
    outgoing: Option<(usize, Epoch)>,
    /// Prepared parts of transactions over several databases that are not finished.
    parts: usize,
    /// Transactions whose records in the log decide which of two descriptions of the directory
    /// counts.
    decided: Vec<GlobalId>,
    /// Tables that the directory says are gone, and an epoch after that.
    gone: Vec<(usize, Epoch)>,
}

/// A dropped table whose rows are to go.
pub(crate) struct Leaving {
    pub(crate) table: usize,
    /// Transactions that entered in this epoch, or before, may use the table.
    pub(crate) since: Epoch,
    /// Where the next keys are.
    pub(crate) partition: usize,
    pub(crate) walk: Walk,
    /// True if this pass over the table has found a row.
    pub(crate) found: bool,
}

impl<P: Platform> TableList<P> {
    /// Tables, with room for `spare` others.
    pub(crate) fn new(
        c: P::Core,
        tables: Vec<TableDescription>,
        spare: usize,
        faults: Faults,
    ) -> Result<Self, OutOfMemory> {
        let changes = match spare {
            0 => None,
            _ => Some(Changes {
                words: P::region(c, None, LINE_BYTES + (tables.len() + spare) * 8, "tables")?,
                state: Latched::new(c, "tables", State::default())?,
                conversions: Places::new(c, "tables", Vec::new(), spare)?,
                faults,
            }),
        };
        let descriptions = Places::new(c, "tables", tables, spare)?;
        Ok(TableList { descriptions, changes })
    }

    /// All that there are by now, dropped ones too.
    pub(crate) fn get(&self) -> &[TableDescription] {
        self.descriptions.seen()
    }

    /// Adds a table. The caller has the turn, and room.
    pub(crate) fn push(&self, c: P::Core, table: TableDescription) {
        let pushed = self.descriptions.push(c, table);
        assert!(pushed.is_ok(), "there is as much room for descriptions as for tables");
    }

    pub(crate) fn changes(&self) -> Option<&Changes<P>> {
        self.changes.as_ref()
    }

    /// True if a table was dropped for good: no session needs its rows.
    pub(crate) fn is_gone(&self, table: usize) -> bool {
        self.changes.as_ref().is_some_and(|changes| P::peek(changes.word_of(table)) & GONE != 0)
    }
}

impl<P: Platform> Changes<P> {
    fn dropped_word(&self) -> &P::Word {
        P::word_of(&self.words, 0)
    }

    fn leaving_word(&self) -> &P::Word {
        P::word_of(&self.words, 8)
    }

    fn decided_word(&self) -> &P::Word {
        P::word_of(&self.words, 24)
    }

    fn word_of(&self, table: usize) -> &P::Word {
        P::word_of(&self.words, LINE_BYTES + table * 8)
    }

    fn form_word(&self) -> &P::Word {
        P::word_of(&self.words, 16)
    }

    /// True if any table was dropped. A commit that has been announced before it asks learns of
    /// each drop whose [`mark`](Self::mark) came before that announcement.
    #[inline(always)]
    pub(crate) fn has_dropped(&self) -> bool {
        P::peek(self.dropped_word()) > 0
    }

    pub(crate) fn is_dropped(&self, table: usize) -> bool {
        P::peek(self.word_of(table)) > 0
    }

    /// How a table has ended.
    pub(crate) fn end(&self, table: usize) -> End {
        End::of(P::peek(self.word_of(table)))
    }

    /// True if dropped tables have rows left.
    #[inline(always)]
    pub(crate) fn is_leaving(&self) -> bool {
        P::peek(self.leaving_word()) > 0
    }

    /// Marks a table as dropped. Commits that are announced after this has returned learn of it;
    /// those that were announced before hold the global epoch until they are over. The caller has
    /// the turn until [`Self::set_gone`] or [`Self::unmark`].
    pub(crate) fn mark(&self, c: P::Core, table: usize, end: End) {
        // Relaxed, both: published by the fence.
        P::store(c, self.word_of(table), end as u64, Ordering::Relaxed);
        P::store(c, self.dropped_word(), P::peek(self.dropped_word()) + 1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `storage::Participant::announce_commit`.
        P::fence(c, Ordering::SeqCst);
    }

    /// The table that was marked last stays. The caller has had the turn since.
    pub(crate) fn unmark(&self, c: P::Core, table: usize) {
        // Relaxed, both: a session that still finds the mark refuses what could go through.
        P::store(c, self.word_of(table), End::None as u64, Ordering::Relaxed);
        P::store(c, self.dropped_word(), P::peek(self.dropped_word()) - 1, Ordering::Relaxed);
    }

    /// The table that was marked is gone.
    pub(crate) fn set_gone(&self, c: P::Core, table: usize) {
        // Relaxed: a session that does not know it yet copies rows that no session needs.
        P::store(c, self.word_of(table), P::peek(self.word_of(table)) | GONE, Ordering::Relaxed);
    }

    /// True if a table changes its form. The caller has entered its epoch, if the answer is to hold
    /// for its transaction.
    #[inline(always)]
    pub(crate) fn has_form(&self) -> bool {
        P::peek(self.form_word()) != 0
    }

    /// The table that changes its form, and the form that a transaction reads which begins now: it
    /// has entered its epoch.
    pub(crate) fn conversion(&self, c: P::Core) -> Option<(&Conversion, Reads)> {
        // Acquire: pairs with the fence in `set_form`, for the conversion itself.
        let word = P::load(c, self.form_word(), Ordering::Acquire);
        let reads = if word % 2 == 0 { Reads::Before } else { Reads::After };
        let number = (word / 2).checked_sub(1)?;
        self.conversions.get(c).get(number as usize).map(|conversion| (conversion, reads))
    }

    /// True if transactions that began while this table changed its form have to keep both forms
    /// still.
    pub(crate) fn keeps_both(&self, c: P::Core, conversion: &Conversion) -> bool {
        !self.has_fault(Fault::SingleForm)
            && self.conversion(c).is_some_and(|(now, _)| std::ptr::eq(now, conversion))
    }

    /// True if a rule is kept that tests break.
    pub(crate) fn has_fault(&self, fault: Fault) -> bool {
        self.faults.has(fault)
    }

    /// Keeps a conversion; its number.
    pub(crate) fn keep_conversion(&self, c: P::Core, conversion: Conversion) -> usize {
        let kept = self.conversions.push(c, conversion);
        kept.unwrap_or_else(|_| unreachable!("there is as much room for conversions as for tables"))
    }

    /// Transactions that enter in later epochs than the current one keep both forms, and read this
    /// one; `None`: they use what is there.
    pub(crate) fn set_form(&self, c: P::Core, form: Option<(usize, Reads)>) {
        let word = match form {
            None => 0,
            Some((number, Reads::Before)) => (number as u64 + 1) * 2,
            Some((number, Reads::After)) => (number as u64 + 1) * 2 + 1,
        };
        // Release: a transaction that reads the word finds the conversion.
        P::store(c, self.form_word(), word, Ordering::Release);
        // SeqCst: pairs with the fence in `storage::Participant::enter`: who enters in a later
        // epoch than the one that the caller reads next finds the word.
        P::fence(c, Ordering::SeqCst);
    }

    /// True if no other table changes its form; from then on one does.
    pub(crate) fn begin_conversion(&self, c: P::Core) -> bool {
        self.state.with(c, |state| !std::mem::replace(&mut state.converts, true))
    }

    /// True if a table changes its form, or transactions are open that read the form before.
    pub(crate) fn converts(&self, c: P::Core) -> bool {
        self.state.with(c, |state| state.converts)
    }

    /// No table changes its form any more.
    pub(crate) fn end_conversion(&self, c: P::Core) {
        self.state.with(c, |state| state.converts = false);
    }

    /// A form is read by no transaction that enters after this epoch: it goes when the others have
    /// ended.
    pub(crate) fn let_go(&self, c: P::Core, table: usize, since: Epoch) {
        self.state.with(c, |state| {
            state.outgoing = Some((table, since));
            self.add_leaving(c, 1);
        });
    }

    /// The form that goes, if no worker is inside that entered before this epoch; no other core is
    /// given it.
    pub(crate) fn take_outgoing(&self, c: P::Core, horizon: Epoch) -> Option<usize> {
        let is_due = |(_, since): &mut (usize, Epoch)| *since < horizon;
        self.state.with(c, |state| state.outgoing.take_if(is_due).map(|(table, _)| table))
    }

    /// The form that [`Self::take_outgoing`] gave is gone, and another table may change its form.
    pub(crate) fn end_outgoing(&self, c: P::Core) {
        self.state.with(c, |state| {
            self.add_leaving(c, u64::MAX);
            state.converts = false;
        });
    }

    /// A part of a transaction over several databases was prepared, or finished.
    pub(crate) fn count_part(&self, c: P::Core, prepared: bool) {
        self.state.with(c, |state| match prepared {
            true => state.parts += 1,
            false => state.parts -= 1,
        });
    }

    /// True if prepared parts are not finished.
    pub(crate) fn has_parts(&self, c: P::Core) -> bool {
        self.state.with(c, |state| state.parts > 0)
    }

    /// A transaction that has changed tables has committed; its commit is announced still.
    pub(crate) fn note_decision(&self, c: P::Core, transaction: GlobalId) {
        self.state.with(c, |state| {
            state.decided.push(transaction);
            // Release: pairs with the acquire in `decisions`.
            P::store(c, self.decided_word(), state.decided.len() as u64, Ordering::Release);
        });
    }

    /// The directory says what a transaction has decided.
    pub(crate) fn forget_decision(&self, c: P::Core, transaction: GlobalId) {
        self.state.with(c, |state| {
            state.decided.retain(|decided| *decided != transaction);
            P::store(c, self.decided_word(), state.decided.len() as u64, Ordering::Release);
        });
    }

    /// The transactions of which the log has to know that they have committed.
    pub(crate) fn decisions(&self, c: P::Core) -> Vec<GlobalId> {
        // Acquire: a commit that noted one has ended.
        match P::peek(self.decided_word()) {
            0 => Vec::new(),
            _ => self.state.with(c, |state| state.decided.clone()),
        }
    }

    /// Waits until no other core changes tables.
    pub(crate) fn turn(&self, c: P::Core) -> Turn<'_, P> {
        while self.state.with(c, |state| std::mem::replace(&mut state.turn, true)) {
            P::rest(c, TURN_WAIT_NANOS);
        }
        Turn { changes: self, c }
    }

    /// Says what the directory says of its tables.
    pub(crate) fn set_description(&self, c: P::Core, description: Description) {
        self.state.with(c, |state| state.description = description);
    }

    /// The rows of a table that was marked are to go.
    pub(crate) fn begin_leaving(&self, c: P::Core, table: usize, since: Epoch) {
        let leaving = Leaving { table, since, partition: 0, walk: Walk::default(), found: false };
        self.state.with(c, |state| {
            state.leaving.push(leaving);
            state.gone.push((table, since));
            self.add_leaving(c, 1);
        });
    }

    /// A table whose rows can go, now that no worker is inside that entered before this epoch; no
    /// other core is given it meanwhile.
    pub(crate) fn take_leaving(&self, c: P::Core, horizon: Epoch) -> Option<Leaving> {
        self.state.with(c, |state| {
            let place = state.leaving.iter().position(|leaving| leaving.since < horizon)?;
            Some(state.leaving.swap_remove(place))
        })
    }

    /// Gives back what [`Self::take_leaving`] gave; `None`: its rows are gone.
    pub(crate) fn put_back(&self, c: P::Core, leaving: Option<Leaving>) {
        self.state.with(c, |state| match leaving {
            Some(leaving) => state.leaving.push(leaving),
            None => self.add_leaving(c, u64::MAX),
        });
    }

    /// Pre: the state is latched.
    fn add_leaving(&self, c: P::Core, change: u64) {
        // Relaxed: a hint, which the latch's holder changes.
        let count = P::peek(self.leaving_word()).wrapping_add(change);
        P::store(c, self.leaving_word(), count, Ordering::Relaxed);
    }
}

/// The turn to change tables, until it is dropped.
pub(crate) struct Turn<'t, P: Platform> {
    changes: &'t Changes<P>,
    c: P::Core,
}

impl<P: Platform> Turn<'_, P> {
    /// The description in the directory.
    pub(crate) fn description(&self) -> Description {
        self.changes.state.with(self.c, |state| state.description.clone())
    }

    /// The description in the directory, to be changed: without tables that are gone, if there are
    /// many. `copied` gives the epoch up to which a checkpoint stands for the log, and `id_of` the
    /// ids of tables.
    pub(crate) fn description_to_change(
        &self,
        copied: impl FnOnce() -> Epoch,
        id_of: impl Fn(usize) -> u32,
    ) -> Description {
        let (c, state) = (self.c, &self.changes.state);
        let (description, gone) = state.with(c, |state| (state.description.clone(), state.gone.len()));
        if gone < GONE_MANY {
            return description;
        }
        let copied = copied();
        state.with(c, |state| {
            // No later record names them, and no row was copied that counts.
            let forgotten = state.gone.extract_if(.., |(_, since)| *since < copied);
            let ids: BTreeSet<u32> = forgotten.map(|(table, _)| id_of(table)).collect();
            state.description.tables.retain(|table| !ids.contains(&table.id));
            state.description.clone()
        })
    }

    /// The directory says something else now, or will when it is written next.
    pub(crate) fn describe(&self, description: Description) {
        self.changes.set_description(self.c, description);
    }
}

impl<P: Platform> Drop for Turn<'_, P> {
    fn drop(&mut self) {
        if !P::is_gone(self.c) {
            self.changes.state.with(self.c, |state| state.turn = false);
        }
    }
}
