//! Checkpoints while transactions run.
//!
//! Whoever tends to its session works a little on the checkpoint under way: it claims the next keys of a table's primary
//! index, reads their rows, some in a transaction, and writes them into a part, which it has to itself meanwhile. So there are
//! as many parts as sessions that worked at the same time, and no thread of its own. A session gives a tenth of its time to
//! that, and more when the log grows faster than rows are copied. See [`storage::log`] for what makes such copies a checkpoint.
//!
//! A checkpoint begins when the log has grown by twice as much as the last checkpoint has bytes, and by no less than
//! [`DurableOptions::checkpoint_bytes`](super::DurableOptions), or when somebody asks for one; what the log had at the opening
//! is growth too. Closing the database ends the one under way, or makes the one that is due. One that fails leaves the one before,
//! and the log goes on.

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};
use storage::log::{Cut, LogError};
use storage::{Epochs, Latched, Table, Walk};

use super::journal::{Journal, Part};

/// Rows of one slice, about.
const SLICE_ROWS: usize = 64;
/// A session that works on a checkpoint does other things for so many times as long; for fewer when the log has grown since its
/// beginning by as much as makes one due, and by twice as much: a checkpoint ends however fast rows are inserted.
const REST: [u64; 3] = [9, 4, 1];
/// Bytes of log that a byte of a checkpoint saves: a row is copied once while some of its size are logged.
const LOG_BYTES_PER_BYTE: u64 = 2;
/// Most parts, each of which has some megabytes of buffers.
const PARTS_MAX: u32 = 64;

/// What a database does about checkpoints.
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
    /// Parts that nobody works on.
    parts: Vec<Box<dyn Part<P>>>,
    /// Parts that were begun.
    made: u32,
    /// Sessions at work.
    busy: usize,
    /// All keys have been claimed.
    finished: bool,
    /// Keys whose rows could not be read yet, and their tables.
    postponed: Vec<(usize, Vec<u64>)>,
    failed: Option<LogError>,
}

impl<P: Platform> Copying<P> {
    fn claim(&mut self, table: usize) -> Claim<P> {
        self.busy += 1;
        let part = self.parts.pop().ok_or(self.made);
        self.made += u32::from(part.is_err());
        Claim { cut: self.cut.clone(), table, part }
    }

    /// Whether everything is copied, or nothing more will be.
    fn is_over(&self) -> bool {
        self.busy == 0 && (self.failed.is_some() || self.finished && self.postponed.is_empty())
    }
}

/// What a session has to do.
pub(crate) struct Claim<P: Platform> {
    pub cut: Cut,
    pub table: usize,
    /// Or the number of one that is to be made.
    pub part: Result<Box<dyn Part<P>>, u32>,
}

/// How it stands with the checkpoint after a slice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slice {
    /// There may be more to copy.
    More,
    /// Others are at the last rows, or at the beginning or the end.
    Wait,
    /// None is under way.
    Over,
}

/// Checkpoints of a database.
pub(crate) struct Checkpoints<P: Platform> {
    /// Words: the phase, the growth of the log after which the next one begins, and how many have ended.
    words: P::Region,
    copying: Latched<P, Option<Copying<P>>>,
    /// How the last one ended.
    last: Latched<P, Result<(), LogError>>,
    least_bytes: u64,
}

impl<P: Platform> Checkpoints<P> {
    /// None is under way, and the last one has `last_bytes`.
    pub(crate) fn new(c: P::Core, least_bytes: u64, last_bytes: u64) -> Result<Self, OutOfMemory> {
        let checkpoints = Checkpoints {
            words: P::region(c, None, 3 * LINE_BYTES, "checkpoint")?,
            copying: Latched::new(c, "checkpoint", None)?,
            last: Latched::new(c, "checkpoint", Ok(()))?,
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

    /// Whether `growth` of the log is enough for a checkpoint.
    pub(crate) fn is_due(&self, c: P::Core, growth: u64) -> bool {
        // Relaxed: a figure.
        growth >= P::load(c, self.due_word(), Ordering::Relaxed) && self.is(c, Phase::Idle)
    }

    /// For how many times as long a session rests from the one under way, in which the log has grown so far.
    pub(crate) fn rest(&self, c: P::Core, growth: u64) -> u64 {
        // Relaxed: a figure.
        let late = growth / P::load(c, self.due_word(), Ordering::Relaxed).max(1);
        REST[(late as usize).min(REST.len() - 1)]
    }

    /// How many have ended.
    pub(crate) fn ended(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release of who ended it.
        P::load(c, self.ended_word(), Ordering::Acquire)
    }

    /// How the last one ended.
    pub(crate) fn last(&self, c: P::Core) -> Result<(), LogError> {
        self.last.with(c, |last| last.clone())
    }

    /// Begins one if none is under way; whether it did. A failure is the end of it.
    pub(crate) fn begin(&self, c: P::Core, log: &dyn Journal<P>, epochs: &Epochs<P>) -> bool {
        let (idle, turning) = (Phase::Idle as u64, Phase::Turning as u64);
        // Acquire: pairs with the release of who ended the one before.
        if P::cas(c, self.phase_word(), idle, turning, Ordering::Acquire).is_err() {
            return false;
        }
        match log.begin(c, epochs) {
            Err(error) => self.ended_with(c, Err(error)),
            Ok(cut) => {
                let (walk, parts) = (Walk::default(), Vec::new());
                let copying = Copying {
                    cut,
                    table: 0,
                    partition: 0,
                    walk,
                    parts,
                    made: 0,
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

    /// Claims the next keys, which go to `keys`; `None` if there are no more.
    pub(crate) fn claim(&self, c: P::Core, tables: &[Table<P>], keys: &mut Vec<u64>) -> Option<Claim<P>> {
        self.copying.with(c, |state| {
            let copying = state.as_mut()?;
            if copying.parts.is_empty() && copying.made >= PARTS_MAX {
                return None;
            }
            while keys.is_empty() && copying.failed.is_none() {
                let Some(table) = tables.get(copying.table) else {
                    copying.finished = true;
                    let (table, postponed) = copying.postponed.pop()?;
                    keys.extend_from_slice(&postponed);
                    return Some(copying.claim(table));
                };
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
                    return Some(copying.claim(table));
                }
            }
            None
        })
    }

    /// Gives back what was claimed, and the keys of `table` that are left.
    pub(crate) fn give_back(
        &self,
        c: P::Core,
        worked: Result<Box<dyn Part<P>>, LogError>,
        (table, left): (usize, Vec<u64>),
    ) {
        self.copying.with(c, |state| {
            let Some(copying) = state else { return };
            copying.busy -= 1;
            if !left.is_empty() {
                copying.postponed.push((table, left));
            }
            match worked {
                Ok(part) => copying.parts.push(part),
                Err(error) => copying.failed = Some(error),
            }
        });
    }

    /// Ends the checkpoint when everything is copied and nobody is at work any more; whether it is over.
    pub(crate) fn try_end(&self, c: P::Core, log: &dyn Journal<P>, epochs: &Epochs<P>) -> Slice {
        let copying = self.copying.with(c, |state| {
            // It may be another one than that which had nothing more to claim.
            let copying = state.take_if(|copying| copying.is_over())?;
            self.set_phase(c, Phase::Turning);
            Some(copying)
        });
        let Some(copying) = copying else {
            return if self.is(c, Phase::Idle) { Slice::Over } else { Slice::Wait };
        };
        let Copying { cut, parts, made, failed, .. } = copying;
        let finished = match failed {
            Some(error) => Err(error),
            None => parts.into_iter().map(|part| part.finish(c)).sum(),
        };
        if finished.is_err() {
            log.abandon(c, &cut, made);
        }
        let ended = finished.and_then(|bytes: u64| log.end(c, epochs, &cut, made).map(|()| bytes));
        self.ended_with(c, ended);
        Slice::Over
    }

    /// Keys whose rows could not be read yet.
    pub(crate) fn postponed(&self, c: P::Core) -> usize {
        let words = |copying: &Copying<P>| copying.postponed.iter().map(|(_, keys)| keys.len()).sum();
        self.copying.with(c, |state| state.as_ref().map_or(0, words))
    }

    /// Ends the one under way without a result; no session is open.
    pub(crate) fn abandon(&self, c: P::Core, log: &dyn Journal<P>) {
        if let Some(Copying { cut, made, .. }) = self.copying.with(c, Option::take) {
            log.abandon(c, &cut, made);
        }
    }

    /// It has so many bytes, or failed.
    fn ended_with(&self, c: P::Core, result: Result<u64, LogError>) {
        // After a failure the next attempt has to wait as long as after a success.
        if let Ok(bytes) = &result {
            self.set_due(c, *bytes);
        }
        self.last.with(c, |last| *last = result.map(|_| ()));
        // Relaxed and release: `turning` admits one core at a time; pairs with the acquire of `ended`.
        let ended = P::load(c, self.ended_word(), Ordering::Relaxed);
        P::store(c, self.ended_word(), ended + 1, Ordering::Release);
        self.set_phase(c, Phase::Idle);
    }
}
