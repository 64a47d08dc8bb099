//! Checkpoints: a restart does not need earlier changes.
//!
//! A checkpoint begins at an LSN: every change that ends later is logged with an image of its page,
//! if it is the page's first. All pages that had changed by then are written, in copies, while
//! transactions continue, and made durable. Then the [`Master`] says where repetition begins, and
//! which transactions were under way; it replaces the one before when the log has all its data. The
//! log from before is removed.
//!
//! A checkpoint that fails because of a refusal is tried again later: pages that were not written
//! still count as changed, and the log keeps all that is needed. A checkpoint whose flush of the
//! pages fails is the last one of its generation: a later one could take pages for written whose
//! writes were lost. A restart writes every page again that has changed since the last checkpoint
//! that counts.
//!
//! Sessions make checkpoints between transactions, a few pages at a time.

use std::sync::atomic::Ordering;

use platform::LINE_BYTES;
use platform::files::Files;
use storage::Latched;
use terms::{Fault, Faults};

use crate::checkpoints::master::Master;
use crate::checkpoints::undecided::{Undecided, UndecidedContent};
use crate::error::PagedError;
use crate::files::life::Life;
use crate::log::Log;
use crate::lsn::Lsn;

use crate::pool::{Copies, Pool, SendOutcome};

/// Copies on their way at a time: more in a larger pool, of which they are no more than a part, as
/// pages stay meanwhile.
const COPIES: usize = 16;
const COPIES_MAX: usize = 128;
const POOL_PART: usize = 8;
/// Neighbours in the file that are written at once.
const RUN_MAX: usize = 32;
/// A checkpoint that was refused is due again when the log has grown by this part of what makes one
/// due.
const AGAIN_PART: u64 = 16;
/// Frames that a session examines between two transactions.
const FRAMES_PER_TURN: usize = 4096;

/// The content of a checkpoint that does not change while the database is open.
#[derive(Clone, Debug)]
pub(crate) struct FixedContent {
    pub identity: u64,
    pub lives: Vec<Life>,
    pub page_bytes: usize,
    pub description: Vec<u8>,
    pub roots: Vec<u64>,
}

/// A checkpoint that is being made.
struct Job {
    begins: Lsn,
    next_frame: usize,
}

/// The checkpoint under way: one worker at a time uses it.
struct CheckpointMaker<P: Files> {
    copies: Copies<P>,
    job: Option<Job>,
    /// A flush has failed: pages may count as written that are not.
    failure: Option<PagedError>,
}

/// The checkpoints of a database.
pub(crate) struct Checkpoints<P: Files> {
    maker: Latched<P, CheckpointMaker<P>>,
    /// A word: where the last checkpoint begins.
    last: P::Region,
    bytes: u64,
    fixed: FixedContent,
    /// The content of a checkpoint besides pages.
    pub undecided: Undecided<P>,
    faults: Faults,
}

impl<P: Files> Checkpoints<P> {
    /// No checkpoint is under way; one is due when the log has grown by `bytes` bytes.
    pub(crate) fn new(
        c: P::Core,
        pool: &Pool<P>,
        bytes: u64,
        fixed: FixedContent,
        carried: UndecidedContent,
    ) -> Result<Option<Self>, PagedError> {
        if !pool.has_file() {
            return Ok(None);
        }
        let most = (pool.store().frames() / POOL_PART).clamp(COPIES, COPIES_MAX);
        let copies = Copies::in_runs(most, RUN_MAX);
        let maker =
            Latched::new(c, "checkpoint of pages", CheckpointMaker { copies, job: None, failure: None })?;
        let last = P::region(c, None, LINE_BYTES, "last checkpoint of pages")?;
        let undecided = Undecided::new(c, carried)?;
        Ok(Some(Checkpoints { maker, last, bytes, fixed, undecided, faults: pool.faults() }))
    }

    fn last(&self) -> &P::Word {
        P::word_of(&self.last, 0)
    }

    /// Advances a checkpoint, or begins one, if it is time. Workers call this between transactions.
    ///
    /// # Errors
    /// A flush has failed: nothing that counts is lost, but the log grows. What else is refused is
    /// tried again later.
    pub(crate) fn tend(&self, c: P::Core, pool: &Pool<P>, log: &Log<P>) -> Result<(), PagedError> {
        // Relaxed: only a hint.
        let last = P::load(c, self.last(), Ordering::Relaxed);
        if log.buffer.end(c).0.saturating_sub(last) < self.bytes {
            return Ok(());
        }
        let turn = self.maker.try_with(c, |maker| {
            if maker.job.is_none() {
                maker.job = Some(Job { begins: log.buffer.begin_checkpoint(c), next_frame: 0 });
            }
            match self.work(c, maker, pool, log, FRAMES_PER_TURN) {
                Err(_) if maker.failure.is_none() => {
                    let due = log.buffer.end(c).0 + self.bytes / AGAIN_PART;
                    P::store(c, self.last(), due.saturating_sub(self.bytes), Ordering::Relaxed);
                    Ok(())
                }
                ended => ended.map(drop),
            }
        });
        turn.unwrap_or(Ok(()))
    }

    /// Makes a checkpoint of what there is now.
    ///
    /// # Errors
    /// As [`Self::tend`], and whatever else is refused.
    pub(crate) fn make(&self, c: P::Core, pool: &Pool<P>, log: &Log<P>) -> Result<(), PagedError> {
        self.maker.with(c, |maker| {
            // One that has begun before says less.
            if maker.job.is_some() {
                while !self.work(c, maker, pool, log, usize::MAX)? {}
            }
            maker.job = Some(Job { begins: log.buffer.begin_checkpoint(c), next_frame: 0 });
            while !self.work(c, maker, pool, log, usize::MAX)? {}
            Ok(())
        })
    }

    /// Advances the checkpoint under way by some frames. Returns true if it is complete.
    fn work(
        &self,
        c: P::Core,
        maker: &mut CheckpointMaker<P>,
        pool: &Pool<P>,
        log: &Log<P>,
        frames: usize,
    ) -> Result<bool, PagedError> {
        if let Some(failure) = &maker.failure {
            return Err(failure.clone());
        }
        let result = self.try_work(c, maker, pool, log, frames);
        if !matches!(result, Ok(false)) {
            maker.job = None;
        }
        result
    }

    fn try_work(
        &self,
        c: P::Core,
        maker: &mut CheckpointMaker<P>,
        pool: &Pool<P>,
        log: &Log<P>,
        frames: usize,
    ) -> Result<bool, PagedError> {
        let waits = frames == usize::MAX;
        let sent = self.send(c, maker, pool, frames);
        // No other thread begins what was gathered.
        maker.copies.submit(c, pool.store());
        let CheckpointMaker { copies, job: Some(job), failure } = maker else { return Ok(true) };
        if !sent? {
            return Ok(false);
        }
        copies.land(c, pool.store(), waits)?;
        if !copies.is_idle() {
            return Ok(false);
        }
        if let Err(error) = copies.flush(c, pool.store()) {
            *failure = Some(error.clone());
            return Err(error);
        }
        let begins = job.begins;
        // In this order: see `undecided`.
        let low = log.buffer.oldest(c).map_or(begins, |oldest| oldest.min(begins));
        let UndecidedContent { mut parts, mut decisions } = self.undecided.carried(c);
        if self.faults.has(Fault::CheckpointWithoutParts) {
            parts.clear();
        }
        if self.faults.has(Fault::CheckpointWithoutDecisions) {
            decisions.clear();
        }
        let states = pool.states();
        // What is known of pages, and of transactions that are over, is in the log.
        let durable = log.buffer.end(c);
        log.wait(c, durable, None)?;
        let master = Master {
            page_bytes: self.fixed.page_bytes,
            identity: self.fixed.identity,
            generation: log.generation(),
            redo: begins,
            low,
            durable,
            lives: self.fixed.lives.clone(),
            description: self.fixed.description.clone(),
            roots: self.fixed.roots.clone(),
            states,
            carried: UndecidedContent { parts, decisions },
        };
        master.write::<P>(c, copies.queue(c, pool.store())?)?;
        P::store(c, self.last(), begins.0, Ordering::Relaxed);
        log.cut(c, master.low)?;
        Ok(true)
    }

    /// Sends copies of some frames; returns true if those were the last ones.
    fn send(
        &self,
        c: P::Core,
        maker: &mut CheckpointMaker<P>,
        pool: &Pool<P>,
        frames: usize,
    ) -> Result<bool, PagedError> {
        let CheckpointMaker { copies, job: Some(job), .. } = maker else { return Ok(true) };
        let (waits, store) = (frames == usize::MAX, pool.store());
        let end = job.next_frame.saturating_add(frames).min(store.frames());
        while job.next_frame < end {
            copies.land(c, store, waits && !copies.has_room())?;
            if !copies.has_room() {
                return Ok(false);
            }
            if copies.send(c, store, store.frame_id(job.next_frame), true)? == SendOutcome::WasUnderWay {
                // What is under way, by whomever, need not be the last change. It may be from a
                // checkpoint that was refused.
                copies.submit(c, store);
                copies.land(c, store, waits)?;
                pool.land(c, waits)?;
                if !waits {
                    return Ok(false);
                }
                continue;
            }
            job.next_frame += 1;
        }
        Ok(job.next_frame == store.frames())
    }
}
