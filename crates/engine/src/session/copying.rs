//! How a session copies rows for checkpoints. Which rows it copies, and when a checkpoint begins
//! and ends, is decided in [`crate::durable::checkpoint`].

use boundary::{AnyVerbs, Decision};
use concurrency::{Before, Scheme};
use platform::{Nanos, Platform};
use redo_log::{Cut, LogError};
use schema::RowId;
use storage::Epochs;
use terms::{Abort, Mode, Stamp};

use crate::durable::checkpoint::{Choice, CopyTask, IsFree, Phase, Slice};
use crate::durable::codec::{Encoder, TableCodec};
use crate::durable::global::Item;
use crate::durable::journal::CheckpointWriter;
use crate::durable::{Durable, RedoWriter};
use crate::participants::undecided::{Carried, Undecided};
use crate::tables::table_list::TableList;
use crate::transaction::{Scratch, Transaction};

/// Rows that are read in one transaction.
const ROWS_TOGETHER: usize = 16;
/// How long a failed attempt to read a row waits.
const PAUSE_NANOS: u64 = 1_000;
/// Attempts to read a row before the row is left for later: a part that is under way to its end may
/// hold it.
const ATTEMPTS_MAX: u32 = 8;

/// A session's work on checkpoints.
pub(crate) struct RowCopier<'s, 'd, P: Platform, S: Scheme<P>> {
    session: &'s mut concurrency::WorkerContext<'d, P, S>,
    tables: &'d TableList<P>,
    scratch: &'s mut Scratch<'d, P>,
    redo: &'s mut RedoWriter<'d, P>,
    undecided: &'d Undecided<P, S>,
    durable: &'d Durable<P>,
}

impl<'s, 'd, P: Platform, S: Scheme<P>> RowCopier<'s, 'd, P, S> {
    pub(crate) fn new(
        session: &'s mut concurrency::WorkerContext<'d, P, S>,
        tables: &'d TableList<P>,
        scratch: &'s mut Scratch<'d, P>,
        redo: &'s mut RedoWriter<'d, P>,
        undecided: &'d Undecided<P, S>,
    ) -> Self {
        let durable = redo.durable;
        RowCopier { session, tables, scratch, redo, undecided, durable }
    }

    fn epochs(&self) -> &'d Epochs<P> {
        self.session.instance().epochs()
    }

    /// Makes a checkpoint with everything that is committed now, and returns when it counts.
    pub(crate) fn checkpoint(&mut self) -> Result<(), LogError> {
        let c = self.session.core();
        self.session.leave();
        let checkpoints = &self.durable.checkpoints;
        // The checkpoint under way may have begun too early.
        while !self.begin() {
            self.slice_or_pause();
        }
        let ended = checkpoints.ended(c);
        while checkpoints.ended(c) == ended && !checkpoints.is(c, Phase::Idle) {
            self.slice_or_pause();
        }
        checkpoints.last(c)
    }

    /// Makes the checkpoint that is due, or that is cheap for rows with this many bytes, or ends
    /// the one under way, as far as nothing is in its way.
    pub(crate) fn end_checkpoints(&mut self, rows_bytes: u64) {
        let (c, checkpoints) = (self.session.core(), &self.durable.checkpoints);
        self.begin_if_due();
        if checkpoints.is_cheap(c, self.durable.journal.file_bytes(c), rows_bytes) {
            self.session.leave();
            self.begin();
        }
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX && !checkpoints.is(c, Phase::Idle) {
            let before = checkpoints.postponed(c);
            self.slice_or_pause();
            let after = checkpoints.postponed(c);
            attempts += u32::from(after > 0 && after >= before);
        }
    }

    fn slice_or_pause(&mut self) {
        if self.slice(None) == Slice::Wait {
            P::pause(self.session.core(), PAUSE_NANOS);
        }
    }

    /// Begins a checkpoint if it is time.
    pub(crate) fn begin_if_due(&mut self) {
        let (c, durable) = (self.session.core(), self.durable);
        if durable.checkpoints.is_due(c, durable.journal.growth(c)) {
            self.session.leave();
            self.begin();
        }
    }

    /// Begins a checkpoint if none is under way; whether one began.
    fn begin(&mut self) -> bool {
        let (c, epochs, durable) = (self.session.core(), self.epochs(), self.durable);
        durable.checkpoints.begin(c, &*durable.journal, epochs, &mut |cut| self.carry(cut))
    }

    /// Leaves records behind the cut of what a checkpoint does not stand for: undecided parts, and
    /// decisions.
    fn carry(&mut self, cut: &Cut) {
        let c = self.session.core();
        let Carried { parts, mut decisions } = self.undecided.carried(c, cut.epoch());
        let of_tables = self.tables.changes().map_or(Vec::new(), |changes| changes.decisions(c));
        decisions.extend(of_tables.into_iter().map(|global| Decision { global, participants: Vec::new() }));
        if parts.is_empty() && decisions.is_empty() {
            return;
        }
        let local = &mut self.session.worker().local;
        let stamp = Stamp(local.announce_commit(c).first_stamp());
        assert!(stamp.epoch().0 > cut.epoch(), "the epochs that a checkpoint stands for are complete");
        for body in &parts {
            self.redo.append_again(c, local, stamp, body);
        }
        for decision in decisions {
            self.redo.clear();
            self.redo.item(&Item::Decision(decision));
            self.redo.append(c, local, stamp);
        }
        local.retract_commit(c);
    }

    /// True if a checkpoint wants rows.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.durable.checkpoints.is(self.session.core(), Phase::Copying)
    }

    /// Copies some rows, beginning at `now`; gives the moment until which the session does other
    /// things after that.
    pub(crate) fn work(&mut self, now: Nanos, is_free: Option<&IsFree<'_>>) -> Nanos {
        let (c, durable) = (self.session.core(), self.durable);
        self.slice(is_free);
        let end = P::now(c);
        let rest = durable.checkpoints.rest(c, durable.journal.growth(c));
        end.plus(rest * end.since(now))
    }

    /// Copies some rows; of an owner's those that are free.
    #[cold]
    fn slice(&mut self, is_free: Option<&IsFree<'_>>) -> Slice {
        let (c, durable) = (self.session.core(), self.durable);
        let mut keys = Vec::new();
        self.session.enter();
        let codecs = durable.codecs.get(c);
        let is_free_first = |table: usize, keys: &[u64]| {
            is_free.is_none_or(|is_free| is_free(table, &keys[..codecs[table].key_words]))
        };
        let is_gone = |table| self.tables.is_gone(table);
        let choice = Choice { is_gone: &is_gone, is_free: is_free.map(|_| &is_free_first as &IsFree<'_>) };
        let task = durable.checkpoints.next_task(c, self.session.tables(), &choice, &mut keys);
        self.session.leave();
        match task {
            None => durable.checkpoints.try_end(c, &*durable.journal, self.epochs()),
            Some(CopyTask { cut, table, writer }) => {
                let node = self.session.node();
                let writer = writer.or_else(|number| durable.journal.writer(c, &cut, number, node));
                let mut left = Vec::new();
                let copied = |mut writer: Box<dyn CheckpointWriter<P>>| {
                    let copied = match is_free {
                        None => self.copy(table, &keys, &mut *writer, &mut left),
                        Some(is_free) => self.copy_free(table, &keys, is_free, &mut *writer, &mut left),
                    };
                    copied.map(|()| writer)
                };
                let worked = writer.and_then(copied);
                durable.checkpoints.end_task(c, worked, table, left);
                Slice::More
            }
        }
    }

    /// Copies the rows of a table with these keys, those that are still there; `left` gets the keys
    /// of rows in use.
    fn copy(
        &mut self,
        table: usize,
        keys: &[u64],
        writer: &mut dyn CheckpointWriter<P>,
        left: &mut Vec<u64>,
    ) -> Result<(), LogError> {
        let durable = self.durable;
        let codecs = durable.codecs.get(self.session.core());
        let codec = &codecs[table];
        let mut encoder = Encoder::new(codecs);
        let mut copies = CopiedRows::default();
        let mut others = Vec::new();
        let mut is_kept = false;
        for group in keys.chunks(ROWS_TOGETHER * codec.key_words) {
            // A part that keeps whole partitions keeps the following rows too.
            if !is_kept && self.read_rows(table, codec, group, &mut copies)? {
                copies.push(self.session.core(), table, codec, &mut encoder, writer)?;
                continue;
            }
            others.clear();
            self.read_before(table, codec, group, &mut copies, &mut others);
            is_kept = others.len() < group.len();
            copies.push(self.session.core(), table, codec, &mut encoder, writer)?;
            // A row in use does not hold up the others.
            for key in others.chunks_exact(codec.key_words) {
                if self.read_row_at_last(table, codec, key, &mut copies)? {
                    copies.push(self.session.core(), table, codec, &mut encoder, writer)?;
                } else {
                    left.extend_from_slice(key);
                }
            }
        }
        Ok(())
    }

    /// Copies the rows of a table with these keys that are free, those that are still there; `left`
    /// gets the other keys. An owner executes no action meanwhile.
    fn copy_free(
        &mut self,
        table: usize,
        keys: &[u64],
        is_free: &IsFree<'_>,
        writer: &mut dyn CheckpointWriter<P>,
        left: &mut Vec<u64>,
    ) -> Result<(), LogError> {
        let (c, durable) = (self.session.core(), self.durable);
        let codecs = durable.codecs.get(c);
        let codec = &codecs[table];
        let mut encoder = Encoder::new(codecs);
        let mut copies = CopiedRows::default();
        let mut free = Vec::new();
        for key in keys.chunks_exact(codec.key_words) {
            if is_free(table, key) { &mut free } else { &mut *left }.extend_from_slice(key);
        }
        for group in free.chunks(ROWS_TOGETHER * codec.key_words) {
            copies.clear();
            let branch = Transaction::<P, S>::begin_branch(self.session);
            let mut transaction = Transaction::resume(self.session, self.scratch, branch, None);
            let copied = copy_rows(&mut transaction, table, codec, group, &mut copies);
            drop(transaction);
            copied.map_err(|abort| match abort {
                Abort::OutOfMemory(error) => error.into(),
                abort => LogError::Copy(abort.to_string()),
            })?;
            copies.push(c, table, codec, &mut encoder, writer)?;
        }
        self.session.leave();
        Ok(())
    }

    /// Reads those of the rows with these keys that prepared parts keep, as the rows were before;
    /// `others` gets the keys of the rest.
    fn read_before(
        &mut self,
        table: usize,
        codec: &TableCodec,
        keys: &[u64],
        copies: &mut CopiedRows,
        others: &mut Vec<u64>,
    ) {
        copies.clear();
        self.session.enter();
        let undecided = self.undecided;
        let keys = keys.chunks_exact(codec.key_words);
        undecided.before(&mut self.session.context(), table, keys, |key, before| match before {
            None => others.extend_from_slice(key),
            Some(Before::Absent) => {}
            Some(Before::Row(words, tail)) => {
                copies.words.extend_from_slice(&words);
                copies.tails.extend_from_slice(&tail);
                copies.tail_ends.push(copies.tails.len());
            }
        });
    }

    /// Reads one row, in some attempts; false if other transactions were in the way each time.
    fn read_row_at_last(
        &mut self,
        table: usize,
        codec: &TableCodec,
        key: &[u64],
        copies: &mut CopiedRows,
    ) -> Result<bool, LogError> {
        for _ in 0..ATTEMPTS_MAX {
            if self.read_rows(table, codec, key, copies)? {
                return Ok(true);
            }
            self.session.leave();
            P::pause(self.session.core(), PAUSE_NANOS);
        }
        Ok(false)
    }

    /// Reads the rows with these keys in one transaction; false if it conflicts with another
    /// transaction.
    fn read_rows(
        &mut self,
        table: usize,
        codec: &TableCodec,
        keys: &[u64],
        copies: &mut CopiedRows,
    ) -> Result<bool, LogError> {
        copies.clear();
        let redo = Some(&mut *self.redo);
        let mut transaction = Transaction::begin(self.session, self.scratch, redo, Mode::Single, None);
        let outcome = match copy_rows(&mut transaction, table, codec, keys, copies) {
            Ok(()) => transaction.commit().map(drop).map_err(|(abort, _)| abort),
            Err(abort) => Err(transaction.explain(abort).0),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(abort) if abort.is_conflict() => {
                // What comes next does not need what this attempt has waited for.
                S::turn_to_another(self.session.worker(), false);
                Ok(false)
            }
            Err(Abort::OutOfMemory(error)) => Err(error.into()),
            Err(abort) => Err(LogError::Copy(abort.to_string())),
        }
    }
}

/// Copies the rows with these keys, those that are there.
fn copy_rows<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    table: usize,
    codec: &TableCodec,
    keys: &[u64],
    copies: &mut CopiedRows,
) -> Result<(), Abort> {
    let words = codec.layout.row_bytes / 8;
    transaction.find_ascending(table, keys, &mut copies.found)?;
    copies.found.iter().for_each(|row| transaction.prefetch_row(*row, words));
    for row in copies.found.drain(..) {
        let start = copies.words.len();
        copies.words.resize(start + words, 0);
        transaction.copy_words(row, 0, &mut copies.words[start..])?;
        if codec.layout.has_tail {
            AnyVerbs::read_tail(transaction, row, &mut copies.tails)?;
        }
        copies.tail_ends.push(copies.tails.len());
    }
    Ok(())
}

/// Copied rows of one table.
#[derive(Default)]
struct CopiedRows {
    found: Vec<RowId>,
    /// The words of all rows, one row behind the other.
    words: Vec<u64>,
    tails: Vec<u8>,
    /// Where the tail of each row ends.
    tail_ends: Vec<usize>,
}

impl CopiedRows {
    fn clear(&mut self) {
        self.found.clear();
        self.words.clear();
        self.tails.clear();
        self.tail_ends.clear();
    }

    /// Writes the rows into a file of a checkpoint, each as the insertion that makes it.
    fn push<P: Platform>(
        &self,
        c: P::Core,
        table: usize,
        codec: &TableCodec,
        encoder: &mut Encoder<'_>,
        writer: &mut dyn CheckpointWriter<P>,
    ) -> Result<(), LogError> {
        let words = codec.layout.row_bytes / 8;
        let mut tail = 0;
        for (number, tail_end) in self.tail_ends.iter().enumerate() {
            let row = self.words[number * words..][..words].iter().copied();
            encoder.clear();
            encoder.insert(table, row, &self.tails[tail..*tail_end]);
            encoder.bodies().try_for_each(|body| writer.push(c, body))?;
            tail = *tail_end;
        }
        Ok(())
    }
}
