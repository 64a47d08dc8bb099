//! The tables of an open database: what they are, which of them were dropped, and whose turn it is to change that.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};
use storage::{Epoch, Latched, Places, Walk};

use crate::description::TableDescription;
use crate::durable::description::Description;

/// Between two looks whether another core has changed tables.
const TURN_WAIT_NANOS: u64 = 100_000;

/// A table that is being dropped, and is refused to commits that are announced from now on.
const MARKED: u64 = 1;
/// A table that was dropped. The directory says so, if there is one.
const GONE: u64 = 2;

/// The tables of a database, by their numbers.
pub(crate) struct TableList<P: Platform> {
    descriptions: Places<P, TableDescription>,
    /// `None` if tables are those that the database was made with.
    changes: Option<Changes<P>>,
}

/// What becomes of tables while the database is open.
pub(crate) struct Changes<P: Platform> {
    /// Words: how many tables were dropped, how many of these have rows left; then, a line further, one a table: whether it was
    /// dropped ([`MARKED`]), and whether that is for good ([`GONE`]).
    words: P::Region,
    state: Latched<P, State>,
}

#[derive(Default)]
struct State {
    /// Whether a core changes tables.
    turn: bool,
    /// What the directory says, if there is one.
    description: Description,
    /// Dropped tables whose rows are still there, but for those that a session is at.
    leaving: Vec<Leaving>,
    /// Prepared parts of transactions over several databases that are not finished.
    parts: usize,
}

/// A dropped table whose rows are to go.
pub(crate) struct Leaving {
    pub(crate) table: usize,
    /// Transactions that entered in this epoch, or before, may use the table.
    pub(crate) since: Epoch,
    /// Where the next keys are.
    pub(crate) partition: usize,
    pub(crate) walk: Walk,
    /// Whether this pass over the table has found a row.
    pub(crate) found: bool,
}

impl<P: Platform> TableList<P> {
    /// Tables, with room for `spare` others.
    pub(crate) fn new(c: P::Core, tables: Vec<TableDescription>, spare: usize) -> Result<Self, OutOfMemory> {
        let changes = match spare {
            0 => None,
            _ => Some(Changes {
                words: P::region(c, None, LINE_BYTES + (tables.len() + spare) * 8, "tables")?,
                state: Latched::new(c, "tables", State::default())?,
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

    /// Whether a table was dropped, or is being dropped.
    pub(crate) fn is_dropped(&self, table: usize) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.is_dropped(table))
    }

    /// Whether a table was dropped for good: nobody needs its rows.
    pub(crate) fn is_gone(&self, table: usize) -> bool {
        self.changes.as_ref().is_some_and(|changes| P::peek(changes.word_of(table)) == GONE)
    }
}

impl<P: Platform> Changes<P> {
    fn dropped_word(&self) -> &P::Word {
        P::word_of(&self.words, 0)
    }

    fn leaving_word(&self) -> &P::Word {
        P::word_of(&self.words, 8)
    }

    fn word_of(&self, table: usize) -> &P::Word {
        P::word_of(&self.words, LINE_BYTES + table * 8)
    }

    /// Whether any table was dropped. A commit that has been announced before it asks learns of each drop whose
    /// [`mark`](Self::mark) came before that announcement.
    #[inline(always)]
    pub(crate) fn has_dropped(&self) -> bool {
        P::peek(self.dropped_word()) > 0
    }

    pub(crate) fn is_dropped(&self, table: usize) -> bool {
        P::peek(self.word_of(table)) > 0
    }

    /// Whether dropped tables have rows left.
    #[inline(always)]
    pub(crate) fn is_leaving(&self) -> bool {
        P::peek(self.leaving_word()) > 0
    }

    /// Marks a table as dropped. Commits that are announced after this has returned learn of it; those that were announced before
    /// hold the global epoch until they are over. The caller has the turn until [`Self::set_gone`] or [`Self::unmark`].
    pub(crate) fn mark(&self, c: P::Core, table: usize) {
        // Relaxed, both: published by the fence.
        P::store(c, self.word_of(table), MARKED, Ordering::Relaxed);
        P::store(c, self.dropped_word(), P::peek(self.dropped_word()) + 1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `storage::Participant::announce_commit`.
        P::fence(c, Ordering::SeqCst);
    }

    /// The table that was marked stays.
    pub(crate) fn unmark(&self, c: P::Core, table: usize) {
        // Relaxed, both: who still finds the mark refuses what could go through.
        P::store(c, self.word_of(table), 0, Ordering::Relaxed);
        P::store(c, self.dropped_word(), P::peek(self.dropped_word()) - 1, Ordering::Relaxed);
    }

    /// The table that was marked is gone.
    pub(crate) fn set_gone(&self, c: P::Core, table: usize) {
        // Relaxed: who does not know it yet copies rows that nobody needs.
        P::store(c, self.word_of(table), GONE, Ordering::Relaxed);
    }

    /// A part of a transaction over several databases was prepared, or finished.
    pub(crate) fn count_part(&self, c: P::Core, prepared: bool) {
        self.state.with(c, |state| match prepared {
            true => state.parts += 1,
            false => state.parts -= 1,
        });
    }

    /// Whether prepared parts are not finished.
    pub(crate) fn has_parts(&self, c: P::Core) -> bool {
        self.state.with(c, |state| state.parts > 0)
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
            self.add_leaving(c, 1);
        });
    }

    /// A table whose rows can go, now that no worker is inside that entered before this epoch; no other core is given it
    /// meanwhile.
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
    /// What the directory says.
    pub(crate) fn description(&self) -> Description {
        self.changes.state.with(self.c, |state| state.description.clone())
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
