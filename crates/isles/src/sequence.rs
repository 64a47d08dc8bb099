//! Sequences: sources of numbers that never give a number twice, across crashes too.
//!
//! A sequence has a row in the table `isles_sequences`, with the count of the numbers that are
//! *reserved*. Handles of the sequence take numbers from memory, one atomic addition each, and a
//! transaction of its own reserves the next block when a number beyond the reserved ones was taken.
//! The transaction waits until it is durable before any number of the block is given. So numbers
//! that were reserved and not given before the end of the process are skipped, and none is given
//! again. No transaction of the program touches the row.
//!
//! The counters of a sequence belong to its handles, or to the database if a column of a table gets
//! the numbers (`identities`), so that there is one counter in either case.
// Handles in several threads share the state, which does not belong to the engine. A transaction
// within another one of the same thread needs another thread.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schema::{Row, Text};
use terms::{Fault, Faults};

use crate::builder::Builder;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::nesting::check_outside;
use crate::options::{Durability, TransactionOptions};
use crate::sequence_list::AnySequence;
use crate::session::Session;
use crate::table::Table;

/// Name of the table of sequences.
pub(crate) const TABLE: &str = "isles_sequences";
/// Longest name of a sequence in bytes.
const NAME_BYTES_MAX: usize = 48;
/// Default of [`SequenceOptions::block`].
const BLOCK_DEFAULT: u32 = 1_000;

/// A row of the table of sequences.
#[derive(Row, Clone, Copy, PartialEq)]
#[row(crate = schema, key(name))]
struct SequenceRow {
    name: Text<NAME_BYTES_MAX>,
    first: i64,
    increment: i64,
    last: i64,
    /// Count of the numbers, from the first one on, that may have been given.
    reserved: u64,
}

impl SequenceRow {
    /// Returns the count of all numbers of the sequence.
    fn total(&self) -> u64 {
        let distance = i128::from(self.last) - i128::from(self.first);
        u64::try_from(distance / i128::from(self.increment) + 1).unwrap_or(u64::MAX)
    }

    /// Returns the number at this place, which is below [`Self::total`].
    fn number(&self, place: u64) -> i64 {
        let number = i128::from(self.first) + i128::from(place) * i128::from(self.increment);
        i64::try_from(number).expect("a place below the total")
    }

    /// Returns the first place whose number is not before `number`.
    fn place_of(&self, number: i64) -> u64 {
        let (increment, distance) = (i128::from(self.increment), i128::from(number) - i128::from(self.first));
        // Rounded up; a number before the first one has place 0.
        let place = (distance + increment - increment.signum()) / increment;
        u64::try_from(place.max(0)).unwrap_or(u64::MAX).min(self.total())
    }
}

/// Options of a sequence. By default its numbers are 1, 2, 3 and so on.
///
/// ```
/// use isles::{Database, SequenceOptions};
///
/// let mut builder = Database::in_memory();
/// builder.sequences();
/// let database = builder.open()?;
/// let options = SequenceOptions::new().first(100).increment(-10).last(80).block(2);
/// let countdown = database.sequence("countdown", options)?;
/// assert_eq!([countdown.next_value()?, countdown.next_value()?, countdown.next_value()?], [100, 90, 80]);
/// assert!(countdown.next_value().is_err());
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SequenceOptions {
    first: i64,
    increment: i64,
    last: Option<i64>,
    block: u32,
    faults: Faults,
}

impl Default for SequenceOptions {
    fn default() -> Self {
        SequenceOptions { first: 1, increment: 1, last: None, block: BLOCK_DEFAULT, faults: Faults::NONE }
    }
}

impl SequenceOptions {
    /// Returns the default options.
    ///
    /// [`SequenceOptions`] has an example.
    pub fn new() -> Self {
        SequenceOptions::default()
    }

    /// Sets the first number; the default is 1.
    ///
    /// [`SequenceOptions`] has an example.
    #[must_use]
    pub fn first(mut self, number: i64) -> Self {
        self.first = number;
        self
    }

    /// Sets the distance from one number to the next, which may be negative; the default is 1.
    ///
    /// [`SequenceOptions`] has an example.
    #[must_use]
    pub fn increment(mut self, distance: i64) -> Self {
        self.increment = distance;
        self
    }

    /// Sets the bound that no number passes; the default is the largest (or smallest) `i64`.
    ///
    /// [`SequenceOptions`] has an example.
    #[must_use]
    pub fn last(mut self, bound: i64) -> Self {
        self.last = Some(bound);
        self
    }

    /// Sets how many numbers one transaction reserves, at least 1; the default is 1,000. The end of
    /// the process skips up to this many numbers. In a directory each block waits for the disk
    /// once.
    ///
    /// [`SequenceOptions`] has an example.
    #[must_use]
    pub fn block(mut self, numbers: u32) -> Self {
        self.block = numbers.max(1);
        self
    }

    /// Plants faults. Tests use this method to prove that they find them.
    #[doc(hidden)]
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    fn last_number(&self) -> i64 {
        self.last.unwrap_or(if self.increment < 0 { i64::MIN } else { i64::MAX })
    }
}

/// A source of numbers, returned by [`Database::sequence`]. Clones, and further handles of the same
/// sequence, share its numbers. A sequence keeps its database open, and takes the place of a
/// session.
///
/// A number is given once, whether or not the transaction that uses it commits. Transactions may
/// commit in another order than that of their numbers.
///
/// ```
/// use isles::{Database, Row, SequenceOptions};
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Order { id: i64, item: u32 }
///
/// # let path = std::env::temp_dir().join(format!("isles-doc-sequence-{}", std::process::id()));
/// let open = || {
///     let mut builder = Database::at(&path);
///     builder.sequences();
///     let orders = builder.table::<Order>("orders");
///     Ok::<_, isles::Error>((builder.open()?, orders))
/// };
/// let (database, orders) = open()?;
/// let ids = database.sequence("order ids", SequenceOptions::new())?;
/// for item in [7, 8] {
///     database.transaction(|t| t.insert(orders, &Order { id: ids.next_value()?, item }))?;
/// }
/// // For rows that were imported with numbers of their own.
/// ids.raise_to(500)?;
/// assert_eq!(ids.next_values(3)?.collect::<Vec<_>>(), [500, 501, 502]);
/// assert_eq!(ids.name(), "order ids");
/// drop((database, ids));
///
/// let (database, _) = open()?;
/// let ids = database.sequence("order ids", SequenceOptions::new())?;
/// assert!(ids.next_value()? > 502);
/// drop(ids);
/// database.drop_sequence("order ids")?;
/// # drop(database);
/// # let _ = std::fs::remove_dir_all(&path);
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Clone)]
pub struct Sequence {
    handle: Arc<SequenceHandle>,
}

/// State that all handles of a sequence share.
struct SequenceHandle {
    state: Arc<SequenceState>,
    /// The session that reserves.
    session: Mutex<Session>,
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Sequence({})", self.name())
    }
}

/// The counters of a sequence.
pub(crate) struct SequenceState {
    /// The row as it was found, for its fixed fields.
    row: SequenceRow,
    block: u32,
    faults: Faults,
    table: Table<SequenceRow>,
    /// The next place to give. Beyond the reserved ones it may be ahead of what is ever given.
    next: AtomicU64,
    /// Count of the places that are reserved durably. It never becomes smaller.
    reserved: AtomicU64,
    /// Held by the thread that reserves.
    reserving: Mutex<()>,
}

impl Builder {
    /// Declares the table `isles_sequences`, which [`Database::sequence`] needs.
    ///
    /// [`Sequence`](crate::Sequence) has an example.
    pub fn sequences(&mut self) {
        self.table::<SequenceRow>(TABLE);
    }

    /// Declares that table if a column of another table gets numbers of a sequence.
    pub(crate) fn declare_sequences(&mut self) {
        if self.has_identities() && !self.has_table(TABLE) {
            self.sequences();
        }
    }
}

impl Database {
    /// Returns the sequence of this name. Creates it if it does not exist.
    ///
    /// Errors: [`Error::NoSuchTable`] if the database was opened without [`Builder::sequences`];
    /// [`Error::Declaration`] for a name of no or more than 48 bytes, for options without numbers,
    /// and for a sequence that exists with other numbers; [`Error::Misuse`] in an instance of a
    /// deployment; [`Error::Nested`] inside a transaction; [`Error::TooManySessions`]; those of
    /// [`Session::transaction`].
    ///
    /// [`Sequence`](crate::Sequence) has an example.
    pub fn sequence(&self, name: &str, options: SequenceOptions) -> Result<Sequence> {
        let table = self.table_of_sequences()?;
        let row = row_of(name, &options)?;
        let mut open = self.shared.sequences.lock();
        if let Some(handle) = open.get(name) {
            let handle = handle.downcast::<SequenceHandle>().expect("the list has sequences alone");
            check_same(&handle.state.row, &row, name)?;
            return Ok(Sequence { handle });
        }
        let mut session = self.session()?;
        let state = match open.counters(name) {
            Some(state) => state.downcast::<SequenceState>().expect("the list has counters alone"),
            None => Arc::new(SequenceState::read(&mut session, table, &row, &options)?),
        };
        check_same(&state.row, &row, name)?;
        let handle = Arc::new(SequenceHandle { state, session: Mutex::new(session) });
        open.add(name, &(Arc::clone(&handle) as Arc<AnySequence>));
        Ok(Sequence { handle })
    }

    /// Returns the counters of a sequence, which the database keeps from now on. Creates the
    /// sequence with the default numbers if it does not exist.
    pub(crate) fn identity_counters(&self, name: &str) -> Result<Arc<SequenceState>> {
        let mut open = self.shared.sequences.lock();
        if let Some(state) = open.counters(name) {
            return Ok(state.downcast::<SequenceState>().expect("the list has counters alone"));
        }
        let state = match open.get(name) {
            Some(handle) => {
                let handle = handle.downcast::<SequenceHandle>().expect("the list has sequences alone");
                Arc::clone(&handle.state)
            }
            None => {
                let (table, options) = (self.open_table_of_sequences()?, SequenceOptions::new());
                let row = row_of(name, &options)?;
                let mut session = self.session()?;
                let read = || SequenceState::read(&mut session, table, &row, &options);
                Arc::new(outside(table.database, read)?)
            }
        };
        open.keep(name, Arc::clone(&state) as Arc<AnySequence>);
        Ok(state)
    }

    /// Removes a sequence. A sequence that is created later under this name begins anew. Returns
    /// false if there is none.
    ///
    /// Errors: [`Error::Misuse`] if the sequence has handles; others as [`Self::sequence`].
    ///
    /// [`Sequence`](crate::Sequence) has an example.
    pub fn drop_sequence(&self, name: &str) -> Result<bool> {
        let table = self.table_of_sequences()?;
        let key = name_of(name)?;
        let open = self.shared.sequences.lock();
        if open.get(name).is_some() {
            return Err(Error::Misuse("a sequence is dropped after all of its handles"));
        }
        if open.counters(name).is_some() {
            return Err(Error::Misuse("a column of a table gets the numbers of the sequence"));
        }
        self.transaction(|t| t.delete(table, &key)).map(|row| row.is_some())
    }

    fn table_of_sequences(&self) -> Result<Table<SequenceRow>> {
        self.shared.check_outside()?;
        self.open_table_of_sequences()
    }

    /// Checks that there is a table of sequences.
    pub(crate) fn check_sequences(&self) -> Result<()> {
        self.open_table_of_sequences().map(drop)
    }

    fn open_table_of_sequences(&self) -> Result<Table<SequenceRow>> {
        if self.shared.share.is_some() {
            return Err(Error::Misuse("an instance of a deployment has no sequences"));
        }
        self.table(TABLE).map_err(|error| match error {
            Error::NoSuchTable(_) => Error::NoSuchTable(
                "the database was opened without sequences: call `Builder::sequences` before `open`"
                    .to_owned(),
            ),
            error => error,
        })
    }
}

impl Sequence {
    /// Returns the next number. In a directory every block of numbers waits for the disk once.
    /// The call is possible inside a transaction, and is not part of it.
    ///
    /// Errors: [`Error::SequenceEnd`] after the last number; those of [`Session::transaction`] if a
    /// block cannot be reserved.
    ///
    /// [`Sequence`] has an example.
    pub fn next_value(&self) -> Result<i64> {
        let place = self.take(1)?;
        Ok(self.handle.state.row.number(place))
    }

    /// Returns the next `count` numbers, which follow each other in the sequence.
    ///
    /// Errors: as [`Self::next_value`]; [`Error::SequenceEnd`] if fewer numbers are left, which are
    /// then skipped.
    ///
    /// [`Sequence`] has an example.
    pub fn next_values(&self, count: u32) -> Result<impl ExactSizeIterator<Item = i64> + use<>> {
        let (first, row) = (self.take(u64::from(count))?, self.handle.state.row);
        Ok((0..count).map(move |number| row.number(first + u64::from(number))))
    }

    /// Skips all numbers before `number`: numbers that are given later are not before it, after a
    /// crash too.
    ///
    /// Errors: those of [`Session::transaction`].
    ///
    /// [`Sequence`] has an example.
    pub fn raise_to(&self, number: i64) -> Result<()> {
        let SequenceHandle { state, session } = &*self.handle;
        let place = state.row.place_of(number);
        // Relaxed: the places are numbers alone, and `reserved` says which of them may be given.
        state.next.fetch_max(place, Ordering::Relaxed);
        state.reserve(place, &mut || Ok(LentSession::Locked(lock(session))))
    }

    /// Returns the name.
    ///
    /// [`Sequence`] has an example.
    pub fn name(&self) -> &str {
        self.handle.state.row.name.as_str()
    }

    /// Takes places that follow each other, and returns the first one.
    fn take(&self, count: u64) -> Result<u64> {
        let SequenceHandle { state, session } = &*self.handle;
        state.take(count, &mut || Ok(LentSession::Locked(lock(session))))
    }
}

/// A session for a reservation.
enum LentSession<'s> {
    Locked(MutexGuard<'s, Session>),
    Own(Box<Session>),
}

type Lender<'s> = dyn FnMut() -> Result<LentSession<'s>> + 's;

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SequenceState {
    /// Reads the row of a sequence; inserts this one if there is none.
    fn read(
        session: &mut Session,
        table: Table<SequenceRow>,
        row: &SequenceRow,
        options: &SequenceOptions,
    ) -> Result<Self> {
        let found = session.transaction(|t| match t.get(table, &row.name)? {
            Some(found) => Ok(found),
            None => t.insert(table, row).map(|()| *row),
        })?;
        Ok(SequenceState {
            row: found,
            block: options.block,
            faults: options.faults,
            table,
            next: AtomicU64::new(found.reserved),
            reserved: AtomicU64::new(found.reserved),
            reserving: Mutex::new(()),
        })
    }

    /// Returns the next number, for a column of a table. `session` opens a session, which only a
    /// reservation needs.
    pub(crate) fn next_number(&self, session: &mut dyn FnMut() -> Result<Session>) -> Result<i64> {
        let place = self.take(1, &mut || session().map(|session| LentSession::Own(Box::new(session))))?;
        Ok(self.row.number(place))
    }

    /// Takes places that follow each other, and returns the first one.
    fn take<'s>(&self, count: u64, lend: &mut Lender<'s>) -> Result<u64> {
        let state = self;
        let total = state.row.total();
        // Relaxed: as in `raise_to`. A place beyond the total is not taken, so that the count
        // cannot overflow.
        let taken = state.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            next.checked_add(count).filter(|end| *end <= total)
        });
        let Ok(first) = taken else {
            state.next.fetch_max(total, Ordering::Relaxed);
            return Err(Error::SequenceEnd { sequence: state.row.name.as_str().to_owned() });
        };
        state.reserve(first + count, lend)?;
        Ok(first)
    }

    /// Returns when at least `places` places are reserved durably.
    fn reserve<'s>(&self, places: u64, lend: &mut Lender<'s>) -> Result<()> {
        // Acquire: pairs with the store after the reservation.
        if self.reserved.load(Ordering::Acquire) >= places {
            return Ok(());
        }
        let _reserving = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
        if self.reserved.load(Ordering::Acquire) >= places {
            return Ok(());
        }
        let until = places.saturating_add(u64::from(self.block) - 1).min(self.row.total());
        let mut lent = lend()?;
        let session: &mut Session = match &mut lent {
            LentSession::Locked(session) => session,
            LentSession::Own(session) => session,
        };
        let reserve = move || {
            let durable = !self.faults.has(Fault::EarlyNumbers);
            let durability = if durable { Durability::Immediate } else { Durability::Async };
            let options = TransactionOptions::new().durability(durability);
            session.with(options).transaction(|t| {
                let reserved = t.update(self.table, &self.row.name, |row| {
                    row.reserved = row.reserved.max(until);
                    row.reserved
                })?;
                reserved.ok_or_else(|| Error::NoSuchTable(format!("no sequence {}", self.row.name.as_str())))
            })
        };
        let reserved = outside(self.table.database, reserve)?;
        // Release: the numbers may be given from now on.
        self.reserved.fetch_max(reserved, Ordering::Release);
        Ok(())
    }
}

/// Runs a transaction that is no part of the one in which the thread may be.
fn outside<T: Send>(database: u64, run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    match check_outside(database) {
        Ok(()) => run(),
        Err(_) => std::thread::scope(|scope| {
            let joined = scope.spawn(run).join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    }
}

fn name_of(name: &str) -> Result<Text<NAME_BYTES_MAX>> {
    let text = Text::try_from(name).ok().filter(|_| !name.is_empty());
    text.ok_or_else(|| {
        declaration(format!("the name of a sequence has 1 to {NAME_BYTES_MAX} bytes: {name:?}"))
    })
}

fn row_of(name: &str, options: &SequenceOptions) -> Result<SequenceRow> {
    let (first, increment, last) = (options.first, options.increment, options.last_number());
    let is_empty = increment == 0 || (increment > 0 && last < first) || (increment < 0 && last > first);
    if is_empty {
        let why = format!("a sequence from {first} to {last} by {increment} has no numbers");
        return Err(declaration(why));
    }
    Ok(SequenceRow { name: name_of(name)?, first, increment, last, reserved: 0 })
}

fn check_same(found: &SequenceRow, wanted: &SequenceRow, name: &str) -> Result<()> {
    let numbers = |row: &SequenceRow| (row.first, row.increment, row.last);
    if numbers(found) == numbers(wanted) {
        return Ok(());
    }
    let (first, increment, last) = numbers(found);
    Err(declaration(format!("the sequence {name} exists from {first} to {last} by {increment}")))
}

fn declaration(reason: String) -> Error {
    Error::Declaration { table: TABLE.to_owned(), reason }
}
