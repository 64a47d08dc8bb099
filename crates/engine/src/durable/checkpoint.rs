//! Checkpoints while transactions run: when a checkpoint begins, which session copies which rows,
//! and when the checkpoint ends. The rows are copied in `copying.rs`.
//!
//! A session that is tended works a little on the checkpoint under way. The session claims the next
//! keys of a table's primary index, reads their rows, several in a transaction, and writes them
//! into a file of the checkpoint, which no other session writes meanwhile. So a checkpoint has as
//! many files as sessions worked at the same time, and needs no thread of its own. A session gives
//! a tenth of its time to the checkpoint, and more when the log grows faster than rows are copied.
//! See [`redo_log`] for what makes such copies a checkpoint.
//!
//! A checkpoint begins when the log has grown by twice as many bytes as the last checkpoint has,
//! and by no less than [`DurableOptions::checkpoint_bytes`](super::DurableOptions), or when the
//! program asks for a checkpoint; what the log had at the opening is growth too. Closing the
//! database ends the checkpoint under way, or makes the checkpoint that is due, or one that is
//! cheap; so does an opening, whose log would be read again at the next one. A checkpoint that
//! fails leaves the previous checkpoint in place, and the log goes on.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};
use redo_log::{Cut, LogError};
use storage::{Epochs, Latched, Table, Walk};
use terms::Epoch;

use super::journal::{CheckpointWriter, Journal};

/// Rows that a session copies at a time, about.
const SLICE_ROWS: usize = 64;
/// A session that has worked on a checkpoint does other things for this many times as long. The
/// numbers are for a log that has grown, since the checkpoint began, by less than makes the next
/// checkpoint due, by less than twice as much, and by more: a checkpoint ends however fast rows are
/// inserted.
const REST: [u64; 3] = [9, 4, 1];
/// Bytes of log that a byte of a checkpoint saves: a row is copied once while some of its size are
/// logged.
const LOG_BYTES_PER_BYTE: u64 = 2;
/// A log whose files take this many bytes gives way to a checkpoint when the database is opened or
/// closed, if copying is cheap: of rows with half as many bytes, or with no more than the second
/// number.
const CHEAP_LOG_BYTES: u64 = 3 << 20;
const CHEAP_ROWS_BYTES: u64 = 8 << 20;
/// Most files of a checkpoint, each of which has some megabytes of buffers.
const FILES_MAX: u32 = 64;
/// Lists of keys that wait for their owners, at most, as long as there are keys that no session has
/// claimed.
const POSTPONED_MAX: usize = 1024;

/// The phase of a database's checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    Idle = 0,
    /// One core begins or ends a checkpoint.
    Turning = 1,
    /// Rows are copied.
    Copying = 2,
}

/// The checkpoint under way.
struct Copying<P: Platform> {
    cut: Cut,
    /// Where the next keys are.
    table: usize,
    partition: usize,
    walk: Walk,
    /// Files that no session is writing.
    idle: Vec<Box<dyn CheckpointWriter<P>>>,
    /// Files that were begun.
    files: u32,
    /// Sessions at work.
    busy: usize,
    /// All keys have been claimed.
    finished: bool,
    /// Keys whose rows could not be read yet, and their tables.
    postponed: Vec<(usize, Vec<u64>)>,
    failed: Option<LogError>,
}

impl<P: Platform> Copying<P> {
    fn task(&mut self, table: usize) -> CopyTask<P> {
        self.busy += 1;
        let writer = self.idle.pop().ok_or(self.files);
        self.files += u32::from(writer.is_err());
        CopyTask { cut: self.cut.clone(), table, writer }
    }

    /// True if everything is copied, or nothing more will be.
    fn is_over(&self) -> bool {
        self.busy == 0 && (self.failed.is_some() || self.finished && self.postponed.is_empty())
    }
}

/// Rows that one session is to copy: the table, and the file that takes them. Their keys are handed
/// out beside.
pub(crate) struct CopyTask<P: Platform> {
    pub cut: Cut,
    pub table: usize,
    /// The file, or the number of a file that is to be made.
    pub writer: Result<Box<dyn CheckpointWriter<P>>, u32>,
}

/// True of a table and keys if the session can copy the row of the first of them now.
pub(crate) type IsFree<'f> = dyn Fn(usize, &[u64]) -> bool + 'f;

/// The keys that a session can copy.
pub(crate) struct Choice<'c> {
    /// True of tables that are gone.
    pub is_gone: &'c dyn Fn(usize) -> bool,
    /// `Some` if rows have owners.
    pub is_free: Option<&'c IsFree<'c>>,
}

/// The result of a session's work on a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slice {
    /// There may be more to copy.
    More,
    /// Other sessions copy the last rows, or begin or end the checkpoint.
    Wait,
    /// No checkpoint is under way.
    Over,
}

/// State of the checkpoints that have ended.
struct LastCheckpoint {
    /// How the last one ended.
    result: Result<(), LogError>,
    /// The epoch up to which the last one that counts stands for the log.
    copied: Epoch,
}

/// Checkpoints of a database.
pub(crate) struct Checkpoints<P: Platform> {
    /// Words: the phase, the growth of the log after which the next checkpoint begins, and how many
    /// checkpoints have ended.
    words: P::Region,
    copying: Latched<P, Option<Copying<P>>>,
    last: Latched<P, LastCheckpoint>,
    least_bytes: u64,
}

impl<P: Platform> Checkpoints<P> {
    /// No checkpoint is under way, and the last one has `last_bytes`.
    pub(crate) fn new(c: P::Core, least_bytes: u64, last_bytes: u64) -> Result<Self, OutOfMemory> {
        let checkpoints = Checkpoints {
            words: P::region(c, None, 3 * LINE_BYTES, "checkpoint")?,
            copying: Latched::new(c, "checkpoint", None)?,
            last: Latched::new(c, "checkpoint", LastCheckpoint { result: Ok(()), copied: Epoch(0) })?,
            least_bytes,
        };
        checkpoints.set_due(c, last_bytes);
        Ok(checkpoints)
    }

    fn phase_word(&self) -> &P::Word {
        P::word_of(&self.words, 0)
    }

    fn due_word(&self) -> &P::Word {
        P::word_of(&self.words, LINE_BYTES)
    }

    fn ended_word(&self) -> &P::Word {
        P::word_of(&self.words, 2 * LINE_BYTES)
    }

    fn set_due(&self, c: P::Core, last_bytes: u64) {
        // Relaxed: a figure.
        P::store(
            c,
            self.due_word(),
            (LOG_BYTES_PER_BYTE * last_bytes).max(self.least_bytes),
            Ordering::Relaxed,
        );
    }

    pub(crate) fn is(&self, c: P::Core, phase: Phase) -> bool {
        // Acquire: pairs with the release of `set_phase`.
        P::load(c, self.phase_word(), Ordering::Acquire) == phase as u64
    }

    fn set_phase(&self, c: P::Core, phase: Phase) {
        // Release: pairs with the acquire of `is`.
        P::store(c, self.phase_word(), phase as u64, Ordering::Release);
    }

    /// True if `growth` of the log is enough for a checkpoint.
    pub(crate) fn is_due(&self, c: P::Core, growth: u64) -> bool {
        // Relaxed: a figure.
        growth >= P::load(c, self.due_word(), Ordering::Relaxed) && self.is(c, Phase::Idle)
    }

    /// True if a checkpoint of rows with this many bytes costs less than keeping a log whose files
    /// take this many. Never if checkpoints are made only when they are asked for.
    pub(crate) fn is_cheap(&self, c: P::Core, file_bytes: u64, rows_bytes: u64) -> bool {
        file_bytes >= CHEAP_LOG_BYTES
            && rows_bytes <= CHEAP_ROWS_BYTES.max(file_bytes / LOG_BYTES_PER_BYTE)
            && self.least_bytes < u64::MAX
            && self.is(c, Phase::Idle)
    }

    /// For how many times as long as it worked a session rests from the checkpoint under way, since
    /// whose beginning the log has grown by `growth` bytes.
    pub(crate) fn rest(&self, c: P::Core, growth: u64) -> u64 {
        // Relaxed: a figure.
        let late = growth / P::load(c, self.due_word(), Ordering::Relaxed).max(1);
        REST[(late as usize).min(REST.len() - 1)]
    }

    /// How many checkpoints have ended.
    pub(crate) fn ended(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release in `ended_with`.
        P::load(c, self.ended_word(), Ordering::Acquire)
    }

    /// How the last checkpoint ended.
    pub(crate) fn last(&self, c: P::Core) -> Result<(), LogError> {
        self.last.with(c, |last| last.result.clone())
    }

    /// The epoch up to which the last checkpoint that has ended since the database was opened
    /// stands for the log.
    pub(crate) fn copied(&self, c: P::Core) -> Epoch {
        self.last.with(c, |last| last.copied)
    }

    /// Begins a checkpoint if none is under way; whether one began. A checkpoint whose beginning
    /// fails has ended. `carry` leaves records behind the cut, before any row is copied.
    pub(crate) fn begin(
        &self,
        c: P::Core,
        log: &dyn Journal<P>,
        epochs: &Epochs<P>,
        carry: &mut dyn FnMut(&Cut),
    ) -> bool {
        let (idle, turning) = (Phase::Idle as u64, Phase::Turning as u64);
        // Acquire: pairs with the release of `set_phase` at the end of the checkpoint before.
        if P::cas(c, self.phase_word(), idle, turning, Ordering::Acquire).is_err() {
            return false;
        }
        match log.begin(c, epochs) {
            Err(error) => self.ended_with(c, Epoch(0), Err(error)),
            Ok(cut) => {
                carry(&cut);
                let (walk, idle) = (Walk::default(), Vec::new());
                let copying = Copying {
                    cut,
                    table: 0,
                    partition: 0,
                    walk,
                    idle,
                    files: 0,
                    busy: 0,
                    finished: false,
                    postponed: Vec::new(),
                    failed: None,
                };
                self.copying.with(c, |state| {
                    *state = Some(copying);
                    self.set_phase(c, Phase::Copying);
                });
            }
        }
        true
    }

    /// Hands out the next keys, which go to `keys`; `None` if there are no more. Tables that are
    /// gone have none. One that is being dropped has: if that fails, the checkpoint is what has its
    /// rows. If rows have owners, keys that wait for this one come first; others may be handed out
    /// to any owner, which leaves what is not its own.
    pub(crate) fn next_task(
        &self,
        c: P::Core,
        tables: &[Table<P>],
        choice: &Choice<'_>,
        keys: &mut Vec<u64>,
    ) -> Option<CopyTask<P>> {
        self.copying.with(c, |state| {
            let copying = state.as_mut()?;
            if copying.idle.is_empty() && copying.files >= FILES_MAX {
                return None;
            }
            if let (Some(is_free), None) = (choice.is_free, &copying.failed) {
                let own = copying.postponed.iter().position(|(table, keys)| is_free(*table, keys));
                if let Some((table, own)) = own.map(|place| copying.postponed.swap_remove(place)) {
                    keys.extend_from_slice(&own);
                    return Some(copying.task(table));
                }
                if copying.postponed.len() >= POSTPONED_MAX {
                    return None;
                }
            }
            while keys.is_empty() && copying.failed.is_none() {
                let Some(table) = tables.get(copying.table) else {
                    copying.finished = true;
                    if choice.is_free.is_some() {
                        return None;
                    }
                    let (table, postponed) = copying.postponed.pop()?;
                    keys.extend_from_slice(&postponed);
                    return Some(copying.task(table));
                };
                if (choice.is_gone)(copying.table) {
                    (copying.table, copying.partition, copying.walk) =
                        (copying.table + 1, 0, Walk::default());
                    continue;
                }
                let primary = &table.indexes[0];
                let Some(partition) = primary.all_partitions().get(copying.partition) else {
                    copying.table += 1;
                    copying.partition = 0;
                    continue;
                };
                let table = copying.table;
                if !partition.walk(c, &mut copying.walk, SLICE_ROWS, keys) {
                    copying.walk = Walk::default();
                    copying.partition += 1;
                }
                if !keys.is_empty() {
                    return Some(copying.task(table));
                }
            }
            None
        })
    }

    /// Takes note that a session has done its task: gives back the file, and the keys of `table`
    /// whose rows are left.
    pub(crate) fn end_task(
        &self,
        c: P::Core,
        worked: Result<Box<dyn CheckpointWriter<P>>, LogError>,
        table: usize,
        left: Vec<u64>,
    ) {
        self.copying.with(c, |state| {
            let Some(copying) = state else { return };
            copying.busy -= 1;
            if !left.is_empty() {
                copying.postponed.push((table, left));
            }
            match worked {
                Ok(writer) => copying.idle.push(writer),
                Err(error) => copying.failed = Some(error),
            }
        });
    }

    /// Ends the checkpoint if everything is copied and no session is at work any more.
    pub(crate) fn try_end(&self, c: P::Core, log: &dyn Journal<P>, epochs: &Epochs<P>) -> Slice {
        let copying = self.copying.with(c, |state| {
            // The checkpoint may be a later one than that which had no more keys for this session.
            let copying = state.take_if(|copying| copying.is_over())?;
            self.set_phase(c, Phase::Turning);
            Some(copying)
        });
        let Some(copying) = copying else {
            return if self.is(c, Phase::Idle) { Slice::Over } else { Slice::Wait };
        };
        let Copying { cut, idle, files, failed, .. } = copying;
        let finished = match failed {
            Some(error) => Err(error),
            None => idle.into_iter().map(|writer| writer.finish(c)).sum(),
        };
        if finished.is_err() {
            log.abandon(c, &cut, files);
        }
        let ended = finished.and_then(|bytes: u64| log.end(c, epochs, &cut, files).map(|()| bytes));
        self.ended_with(c, Epoch(cut.epoch()), ended);
        Slice::Over
    }

    /// Keys whose rows could not be read yet.
    pub(crate) fn postponed(&self, c: P::Core) -> usize {
        let words = |copying: &Copying<P>| copying.postponed.iter().map(|(_, keys)| keys.len()).sum();
        self.copying.with(c, |state| state.as_ref().map_or(0, words))
    }

    /// Ends the checkpoint under way without a result; no session is open.
    pub(crate) fn abandon(&self, c: P::Core, log: &dyn Journal<P>) {
        if let Some(Copying { cut, files, .. }) = self.copying.with(c, Option::take) {
            log.abandon(c, &cut, files);
        }
    }

    /// The checkpoint under way is over, and has this many bytes, or has failed.
    fn ended_with(&self, c: P::Core, copied: Epoch, result: Result<u64, LogError>) {
        // After a failure the log has to grow by as much again before the next checkpoint.
        if let Ok(bytes) = &result {
            self.set_due(c, *bytes);
        }
        self.last.with(c, |last| {
            if result.is_ok() {
                last.copied = copied;
            }
            last.result = result.map(|_| ());
        });
        // Relaxed and release: `turning` admits one core at a time; pairs with the acquire in
        // `ended`.
        let ended = P::load(c, self.ended_word(), Ordering::Relaxed);
        P::store(c, self.ended_word(), ended + 1, Ordering::Release);
        self.set_phase(c, Phase::Idle);
    }
}
