//! How the changes of a transaction reach the log.

use concurrency::RedoSink;
use platform::{Node, OutOfMemory, Platform};
use redo_log::{LogError, Record, Spares};
use storage::{Local, Places};
use terms::{Abort, Fault, Stamp};

use super::checkpoint::Checkpoints;
use super::codec::{Encoder, TableCodec};
use super::global::Item;
use super::journal::Journal;
use crate::tables::table_list::{End, TableList};

/// Bytes of an item with which a part ends, at most, as far as memory is set aside for it.
const ITEM_BYTES: usize = 1 << 10;

/// The state of a durable database.
pub(crate) struct Durable<P: Platform> {
    pub journal: Box<dyn Journal<P>>,
    pub checkpoints: Checkpoints<P>,
    /// By table.
    pub codecs: Places<P, TableCodec>,
}

/// Writes the changes of one session's transactions to the log.
pub(crate) struct RedoWriter<'d, P: Platform> {
    pub(crate) durable: &'d Durable<P>,
    stream: usize,
    /// Memory for records of commits that cannot be refused any more.
    spares: Spares<P>,
    encoder: Encoder<'d>,
    tables: &'d TableList<P>,
    /// True if tables were dropped that the changes may belong to.
    has_dropped: bool,
    /// The end of the tables of the changes so far.
    end: End,
}

impl<'d, P: Platform> RedoWriter<'d, P> {
    pub(crate) fn new(
        c: P::Core,
        durable: &'d Durable<P>,
        tables: &'d TableList<P>,
        node: Option<Node>,
    ) -> Self {
        let stream = durable.journal.stream_for(node);
        let encoder = Encoder::new(durable.codecs.seen());
        let mut spares = Spares::default();
        // What is refused here is tried again by the first commit.
        _ = durable.journal.reserve(c, stream, &mut std::iter::once(ITEM_BYTES), &mut spares);
        RedoWriter { durable, stream, spares, encoder, tables, has_dropped: false, end: End::None }
    }

    pub(crate) fn journal(&self) -> &'d dyn Journal<P> {
        &*self.durable.journal
    }

    /// Forgets the changes of the previous transaction. A commit that changes rows has been
    /// announced.
    pub(crate) fn clear(&mut self) {
        self.encoder.clear();
        if let Some(changes) = self.tables.changes() {
            self.encoder.know(self.durable.codecs.seen());
            self.has_dropped = changes.has_dropped();
            self.end = End::None;
        }
    }

    /// Why the commit is refused, if changes were added since [`Self::clear`] of a table that had
    /// ended before the commit was announced.
    pub(crate) fn refusal(&self) -> Option<Abort> {
        self.end.refusal()
    }

    /// Records the end of the table of a change, if the table has ended.
    #[inline(always)]
    fn check_table(&mut self, table: usize) {
        if self.has_dropped
            && let Some(changes) = self.tables.changes()
        {
            self.end = self.end.max(changes.end(table));
        }
    }

    /// Returns what a record has of the tail that names a row.
    #[inline(always)]
    fn kept<'t>(&self, key_tail: &'t [u8]) -> &'t [u8] {
        // A mutant.
        let is_cut = self.tables.changes().is_some_and(|changes| changes.has_fault(Fault::CutKeys));
        if is_cut { &[] } else { key_tail }
    }

    /// Adds an item, before any change of the transaction.
    pub(crate) fn item(&mut self, item: &Item) {
        self.encoder.item(item);
    }

    /// Sets memory aside for the records of the items and changes since [`Self::clear`]: after
    /// this, [`Self::append`] needs no more.
    ///
    /// # Errors
    /// There is none; the commit can be refused still.
    #[inline]
    pub(crate) fn reserve(&mut self, c: P::Core) -> Result<(), OutOfMemory> {
        // Mostly there is one record, and the session has a buffer for it.
        match self.encoder.only_body() {
            Some(bytes) if self.spares.suffice([bytes]) => Ok(()),
            _ => self.reserve_more(c),
        }
    }

    #[cold]
    fn reserve_more(&mut self, c: P::Core) -> Result<(), OutOfMemory> {
        let mut bodies = self.encoder.bodies().map(<[u8]>::len);
        self.durable.journal.reserve(c, self.stream, &mut bodies, &mut self.spares)
    }

    /// Sets memory aside for the [whole record](Self::append_whole) of a part, and for the record
    /// of its end, which the part keeps.
    ///
    /// # Errors
    /// As those of [`Self::reserve`].
    pub(crate) fn reserve_part(&mut self, c: P::Core) -> Result<Spares<P>, OutOfMemory> {
        self.reserve_for(c, [self.encoder.bytes(), ITEM_BYTES])?;
        Ok(self.spares.split([ITEM_BYTES]))
    }

    /// Sets memory aside for a part that leaves the items and changes since [`Self::clear`] when it
    /// is finished.
    ///
    /// # Errors
    /// As those of [`Self::reserve`].
    pub(crate) fn reserve_later(&mut self, c: P::Core) -> Result<Spares<P>, OutOfMemory> {
        let bodies: Vec<usize> = self.encoder.bodies().map(|body| body.len() + ITEM_BYTES).collect();
        self.reserve_for(c, bodies.iter().copied())?;
        Ok(self.spares.split(bodies))
    }

    fn reserve_for(
        &mut self,
        c: P::Core,
        bodies: impl IntoIterator<Item = usize>,
    ) -> Result<(), OutOfMemory> {
        self.durable.journal.reserve(c, self.stream, &mut bodies.into_iter(), &mut self.spares)
    }

    /// Takes over what a part has set aside.
    pub(crate) fn give(&mut self, spares: Spares<P>) {
        self.spares.join(spares);
    }

    /// Adds changes of other sessions, behind all others.
    pub(crate) fn add(&mut self, changes: &[u8]) {
        self.encoder.add(changes);
    }

    /// The items and changes since [`Self::clear`].
    pub(crate) fn changes(&self) -> &[u8] {
        self.encoder.whole()
    }

    /// How many bytes the items and changes have since [`Self::clear`].
    pub(crate) fn bytes(&self) -> usize {
        self.encoder.bytes()
    }

    /// Appends items and changes to the log as one record; what the record says. Failures are as
    /// those of [`Self::append`].
    pub(crate) fn append_whole(&mut self, c: P::Core, local: &Local<P>, stamp: Stamp) -> Vec<u8> {
        let body = self.encoder.whole().to_vec();
        self.append_again(c, local, stamp, &body);
        body
    }

    /// Appends this body of a record. Failures are as those of [`Self::append`].
    pub(crate) fn append_again(&mut self, c: P::Core, local: &Local<P>, stamp: Stamp, body: &[u8]) {
        check_announced(local, stamp);
        let record = Record { stamp: stamp.0, epoch: stamp.epoch().0, body };
        let (epochs, worker) = (local.epochs_shared(), local.worker());
        let _ = self.durable.journal.append(c, epochs, worker, self.stream, &record, &mut self.spares);
    }

    /// Appends what the transaction changed to the log, which needs no more memory than [set
    /// aside](Self::reserve). A failure shows when the commit is to be acknowledged.
    pub(crate) fn append(&mut self, c: P::Core, local: &Local<P>, stamp: Stamp) {
        let (epoch, epochs, worker) = (stamp.epoch().0, local.epochs_shared(), local.worker());
        for body in self.encoder.bodies() {
            check_announced(local, stamp);
            let (record, spares) = (Record { stamp: stamp.0, epoch, body }, &mut self.spares);
            if self.durable.journal.append(c, epochs, worker, self.stream, &record, spares).is_err() {
                return;
            }
        }
        self.spares.shrink();
    }
}

impl<P: Platform> RedoSink<P> for RedoWriter<'_, P> {
    #[inline]
    fn insert(&mut self, table: usize, row: &[P::Word], tail: &[u8]) {
        self.check_table(table);
        self.encoder.insert(table, row.iter().map(P::peek), tail);
    }

    #[inline]
    fn update(
        &mut self,
        table: usize,
        row: &[P::Word],
        changes: concurrency::RowChanges<'_>,
        tail: Option<&[u8]>,
        key_tail: &[u8],
    ) {
        self.check_table(table);
        let key_tail = self.kept(key_tail);
        self.encoder.update(table, &mut |word| P::peek(&row[word]), changes, tail, key_tail);
    }

    fn delete(&mut self, table: usize, row: &[P::Word], key_tail: &[u8]) {
        self.check_table(table);
        let key_tail = self.kept(key_tail);
        self.encoder.delete(table, &mut |word| P::peek(&row[word]), key_tail);
    }
}

/// Whole groups and complete epochs have a record only if its commit is announced until it is left.
#[inline(always)]
fn check_announced<P: Platform>(local: &Local<P>, stamp: Stamp) {
    let is_announced = || local.announced_commit().is_some_and(|epoch| epoch <= stamp.epoch());
    debug_assert!(is_announced(), "a record is left outside of a commit, or before its epoch");
}

/// The error of a transaction that cannot be durable.
pub(crate) fn not_durable(error: &LogError) -> Abort {
    Abort::NotDurable(error.to_string())
}
