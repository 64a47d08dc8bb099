//! The verbs of a transaction over numbers, words and bytes, as a trait object.

use concurrency::{NewRows, RowWords};
use platform::{Intent, Nanos, Work};
use storage::tree::{Direction, ScanOrder};
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Epoch};

use crate::altering::{TableChanges, TableHold};
use crate::changes::ChangeError;
use crate::declaration::SchemaBuilder;
use crate::savepoints::Savepoint;
use schema::{Routes, RowId};

/// The callback of a scan, called with each row; false ends the scan.
pub type RowVisitor<'v> = dyn FnMut(&mut dyn AnyVerbs, RowId) -> Result<bool, Abort> + 'v;

/// The callback of a scan that reads, called with the words of rows, one row after the other; false
/// ends the scan.
pub type Reader<'v> = dyn FnMut(&mut dyn AnyVerbs, &[u64]) -> Result<bool, Abort> + 'v;

/// Bytes of a row's fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub offset: usize,
    /// How many.
    pub bytes: usize,
}

impl Span {
    /// This many words.
    pub fn of_words(first: usize, words: usize) -> Self {
        Span { offset: first.saturating_mul(8), bytes: 8 * words }
    }

    /// Number of the first word that the span lies in.
    pub fn first_word(self) -> usize {
        self.offset / 8
    }

    /// The words that the span lies in.
    pub fn words(self) -> usize {
        self.offset.saturating_add(self.bytes).div_ceil(8) - self.first_word()
    }
}

/// The body of a transaction, which is called once an attempt.
pub type Body<'b> = dyn FnMut(&mut dyn AnyVerbs) -> Result<(), Abort> + 'b;

/// The verbs of a transaction. Tables and indexes are named by their numbers, rows by the
/// [`RowId`]s that the verbs gave; keys are normalized words, as many as the index compares.
///
/// Numbers that the catalog does not have, keys, rows and tails of other lengths than it says, rows
/// of other transactions and writes that would change a key are [`Abort::Misuse`]. The engine
/// cannot tell whether the keys that a row is inserted or deleted with are those that the row's
/// content gives: a row with other keys is not found under its own keys, and its memory stays in
/// use. After a verb has failed the transaction can only roll back, as with [`crate::Verbs`]: as a
/// whole, or to a savepoint if [`Abort::ends_at_savepoint`].
pub trait AnyVerbs {
    /// Looks a key up; see [`crate::Verbs::find`].
    fn find(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        intent: Intent,
    ) -> Result<Option<RowId>, Abort>;

    /// Looks a key up and copies words of the row, from number `first` on, as [`Self::find`] and
    /// [`Self::read`] do, in one call; false if there is no such row.
    fn find_and_read(
        &mut self,
        TableIndex { table, index }: TableIndex,
        key: &[u64],
        first: usize,
        out: &mut [u64],
    ) -> Result<bool, Abort> {
        match self.find(table, index, key, Intent::Read)? {
            None => Ok(false),
            Some(row) => self.read(row, Span::of_words(first, out.len()), out).map(|()| true),
        }
    }

    /// Looks a key up to read some words of the row, which [`terms::rows::word_set`] names; see
    /// [`crate::Verbs::find_constant`]. The caller reads no others.
    fn find_constant(
        &mut self,
        table: usize,
        index: usize,
        key: &[u64],
        words: u64,
    ) -> Result<Option<RowId>, Abort>;

    /// Looks a key up without any concurrency control; see [`crate::Verbs::find_unvalidated`].
    fn find_unvalidated(&mut self, table: usize, index: usize, key: &[u64]) -> Result<Option<RowId>, Abort>;

    /// Looks many keys up, which lie in `keys` one after the other, so that their cache misses
    /// overlap; appends a row or `None` to `found` for each key. [`Self::prefetch_key`] was called
    /// with the keys before. Prefetches `ahead` of each row together with what a lookup prefetches
    /// anyway.
    fn find_prefetched(
        &mut self,
        table: usize,
        index: usize,
        keys: &[u64],
        intent: Intent,
        ahead: Option<Span>,
        found: &mut Vec<Option<RowId>>,
    ) -> Result<(), Abort>;

    /// Prefetches what a lookup or an insertion of this key will read of the index, and has no
    /// other effect.
    fn prefetch_key(&mut self, table: usize, index: usize, key: &[u64]);

    /// True if the keys of the transaction were announced before it began ([`crate::LookAhead`]).
    fn is_told(&self) -> bool;

    /// Prefetches bytes of a row's fixed part.
    fn prefetch(&mut self, row: RowId, span: Span, intent: Intent);

    /// Copies the words that the span lies in.
    fn read(&mut self, row: RowId, span: Span, out: &mut [u64]) -> Result<(), Abort>;

    /// The caller names none of the rows again that were found so far: a snapshot need not remember
    /// them, so that it may read any number of rows.
    fn forget_rows(&mut self) {}

    /// True if fields that are requested together have to be read one by one.
    fn reads_apart(&self) -> bool;

    /// Appends the row's tail to `out`. The table has tails.
    fn read_tail(&mut self, row: RowId, out: &mut Vec<u8>) -> Result<(), Abort>;

    /// Writes bytes of the row's fixed part. Bytes that belong to keys must stay as they are.
    fn write(&mut self, row: RowId, offset: usize, bytes: &[u8]) -> Result<(), Abort>;

    /// Replaces the row's tail. The table has tails.
    fn write_tail(&mut self, row: RowId, bytes: &[u8]) -> Result<(), Abort>;

    /// Inserts a row with these keys, one an index.
    fn insert(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort>;

    /// Inserts several rows without tails; see [`crate::Verbs::insert_all`].
    fn insert_all(&mut self, table: usize, rows: NewRows<'_>) -> Result<(), Abort>;

    /// Makes a row that enters no index; see [`crate::Verbs::insert_unindexed`].
    fn insert_unindexed(
        &mut self,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort>;

    /// Deletes a row, which has these keys, one an index.
    fn delete(&mut self, row: RowId, keys: &[&[u64]]) -> Result<(), Abort>;

    /// Replaces the whole row, which has the keys `before`, by one with the keys `after`: a row
    /// whose keys change is deleted, and another inserted in its place. `tail` is empty if the
    /// table has none.
    fn replace(
        &mut self,
        row: RowId,
        before: &[&[u64]],
        after: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort>;

    /// Visits the rows with keys in `range`, both ends included, until the visitor returns false.
    fn scan(
        &mut self,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        direction: Direction,
        intent: Intent,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), Abort>;

    /// Visits rows with keys in `range` to change them, as [`Self::scan`] does, but may skip those
    /// that another transaction has locked; a skipped row counts as not read, and so do the gaps
    /// between those that are visited.
    fn scan_or_skip(
        &mut self,
        TableIndex { table, index }: TableIndex,
        range: KeyBounds<'_>,
        direction: Direction,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), Abort> {
        self.scan(table, index, range, direction, Intent::Write, visit)
    }

    /// Copies words of each row with a key in `range`, as [`Self::scan`] and [`Self::read`] do, and
    /// shows them to the visitor, one row or several at a time, until the visitor returns false:
    /// for a visitor that needs nothing else of the rows.
    fn scan_and_read(
        &mut self,
        TableIndex { table, index }: TableIndex,
        range: KeyBounds<'_>,
        ScanOrder { direction, intent }: ScanOrder,
        wanted: RowWords,
        visit: &mut Reader<'_>,
    ) -> Result<(), Abort> {
        let (span, mut words) = (Span::of_words(wanted.first, wanted.count), vec![0; wanted.count]);
        self.scan(table, index, range, direction, intent, &mut |verbs, row| {
            verbs.read(row, span, &mut words)?;
            visit(verbs, &words)
        })
    }

    /// Sets a savepoint. Savepoints nest.
    fn savepoint(&mut self) -> Result<Savepoint, Abort>;

    /// Takes back what the transaction has changed since the savepoint, which stays; later ones are
    /// forgotten. What the transaction has read since stays read, and locks stay. If a verb has
    /// failed since for a reason that [`Abort::ends_at_savepoint`] names, the transaction can go
    /// on.
    ///
    /// # Errors
    /// [`Abort::StaleSavepoint`]: nothing is taken back, and the verb has failed. The error of a
    /// verb that had failed for another reason.
    fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), Abort>;

    /// Forgets a savepoint and all later ones: what was changed since stays, unless the transaction
    /// rolls back, or back to an earlier savepoint.
    ///
    /// # Errors
    /// [`Abort::StaleSavepoint`].
    fn release(&mut self, savepoint: Savepoint) -> Result<(), Abort>;

    /// The number of the table of a row that a verb has given.
    fn table_of(&mut self, row: RowId) -> Result<usize, Abort> {
        let _ = row;
        self.refuse("rows of this storage manager do not say of which table they are").map(|()| 0)
    }

    /// True if the transaction continues with this form of a table whose new transactions use
    /// another form.
    fn keeps_form(&self, table: usize) -> bool {
        let _ = table;
        false
    }

    /// Makes the one table that the schema declares, for this transaction alone until it commits
    /// with it ([`Self::commit_tables`]); its number. The transaction holds something
    /// ([`Self::hold_tables`]).
    ///
    /// # Errors
    /// [`ChangeError`]; the transaction can go on.
    fn make_table(&mut self, schema: SchemaBuilder) -> Result<usize, ChangeError> {
        let _ = schema;
        Err(ChangeError::Unsupported)
    }

    /// Begins to change tables in this transaction, and keeps this until the transaction has ended,
    /// or gives it up. False if tables do not change within transactions, or others change now.
    fn hold_tables(&mut self, hold: TableHold) -> bool {
        let _ = hold;
        false
    }

    /// Waits until all other transactions have ended that began before, at the longest until this
    /// moment; false if some go on.
    fn await_others(&mut self, until: Nanos) -> bool {
        let _ = until;
        false
    }

    /// True if the transaction began after all that had begun by a certain moment have ended:
    /// [`Self::epoch_now`] gave it then.
    fn began_after(&mut self, epoch: Epoch) -> bool {
        let _ = epoch;
        true
    }

    /// True if all transactions under way did.
    fn all_began_after(&self, epoch: Epoch) -> bool {
        let _ = epoch;
        true
    }

    /// A moment for [`Self::began_after`].
    fn epoch_now(&self) -> Epoch {
        Epoch(0)
    }

    /// Commits the transaction with these changes of tables: when this returns, that is durable if
    /// the database is. The transaction goes on as one that has done nothing, and is only to be
    /// committed. It keeps what it holds until it gives it up.
    ///
    /// # Errors
    /// Nothing has happened, and the transaction is to be rolled back; or the log has stopped, and
    /// nothing is known.
    fn commit_tables(&mut self, changes: &TableChanges) -> Result<(), Abort> {
        let _ = changes;
        self.refuse("tables of this storage manager do not change within transactions")
    }

    /// Gives up what the transaction has made, and what it holds.
    fn give_up_tables(&mut self) {}

    /// Ends the transaction for a wrong use that a layer above the verbs has found.
    ///
    /// # Errors
    /// Always [`Abort::Misuse`].
    fn refuse(&mut self, what: &'static str) -> Result<(), Abort>;

    /// True if the scheme wants the keys of a transaction before its first verb: see
    /// [`Self::enlist`].
    fn enlists(&self) -> bool;

    /// Announces what the transaction will use: what `fill` adds. Tables that are not there are
    /// ignored.
    fn enlist(&mut self, fill: &mut dyn FnMut(&mut Routes));

    /// Declares computation, which takes time in the virtual machine.
    fn work(&mut self, work: Work, units: u32);
}
