//! Which pages leave, and how they come to the file before.
//!
//! A clock with two hands: the first marks pages, every use of a page removes its mark, and the
//! second, an eighth of the pool behind, evicts pages that are still marked. They move together,
//! one frame at a time, so no worker pays for a whole round of the first.
//!
//! A worker that needs a frame examines frames ahead of the second hand: copies of the changed
//! pages that will be evicted next are sent to the file, several at a time, while the worker
//! continues. The hand takes pages that the file has. Only if it finds none in time does a worker
//! wait for a page to be written.

use std::sync::atomic::Ordering;

use platform::files::Files;
use storage::Latched;
use storage::latch::VersionLatch;
use terms::Fault;

use super::Pool;
use super::copies::Copies;
use super::frames::{Frame, FrameId, LATCH, LatchedPage, MARK, PAGE, ReadPage, WRITING};
use super::worker::{CleanedFrames, PoolWorker};
use crate::error::PagedError;

/// Rounds of the hands for one frame: from the second on, unmarked pages are marked, so that they
/// are taken in the next one; and more because other workers take frames too.
const ROUNDS: usize = 6;
/// The part of all frames that lies between the hands.
const MARKED_PART: usize = 8;
/// Rounds in which pages stay whose records are not on disk.
const PATIENT_ROUNDS: usize = 3;
/// Changed pages that the hand passes over until it has one written.
const PASSED_MAX: usize = 4;
/// Frames ahead of the hand that are cleaned, at most, and as a part of all.
const AHEAD_MAX: u64 = 256;
const AHEAD_PART: u64 = 8;
/// The number of steps of this.
const AHEAD_STEPS: u64 = 4;

/// The effort that may be made for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effort {
    /// Nothing: pages leave that the file has.
    None,
    /// A page is written.
    Writes,
    /// The log is waited for.
    WaitsForLog,
}

/// Outcome of an attempt to take a frame.
enum TakenFrame<'p, P: Files> {
    Frame(LatchedPage<'p, P>),
    /// It has a page that has changed.
    HasChanged,
    Stays,
}

impl<'p, P: Files> PoolWorker<'p, P> {
    /// Takes a free frame, or one whose page is evicted. Frames that are reserved are not touched.
    #[cold]
    pub(super) fn take_frame(&mut self) -> Result<LatchedPage<'p, P>, PagedError> {
        let (c, pool) = (self.c, self.pool);
        let (parts, frames) = (pool.store.parts(), pool.store.frames_per_part);
        let home = self.part;
        let mut passed = 0;
        for part in (0..parts).map(|step| (home + step) % parts) {
            for step in 0..ROUNDS * frames {
                // Relaxed: only spreads the workers over the frames.
                let turn = P::fetch_add(c, pool.hand(part), 1, Ordering::Relaxed);
                pool.mark_ahead(c, part, turn);
                self.clean_ahead(part, turn)?;
                let frame = pool.store.frame(FrameId::new(part, turn as usize % frames));
                let effort = match step {
                    _ if step >= PATIENT_ROUNDS * frames => Effort::WaitsForLog,
                    _ if passed >= PASSED_MAX => Effort::Writes,
                    _ => Effort::None,
                };
                match self.try_take(frame, effort)? {
                    TakenFrame::Frame(held) => return Ok(held),
                    TakenFrame::Stays if step >= frames => frame.mark(c),
                    TakenFrame::Stays => {}
                    TakenFrame::HasChanged => {
                        passed = if self.wait_for_copies()? { passed + 1 } else { PASSED_MAX };
                    }
                }
            }
        }
        Err(PagedError::PoolFull { frames: pool.store.frames() })
    }

    fn cleaner(&self) -> Option<&'p Latched<P, Copies<P>>> {
        let cleaners = &self.pool.cleaners;
        if cleaners.is_empty() { None } else { cleaners.get(self.number % cleaners.len()) }
    }

    /// Sends copies of pages that will leave soon.
    fn clean_ahead(&mut self, part: usize, turn: u64) -> Result<(), PagedError> {
        let (c, store) = (self.c, &self.pool.store);
        let frames = store.frames_per_part as u64;
        let ahead = (frames / AHEAD_PART).min(AHEAD_MAX);
        let until = turn + 1 + ahead;
        let from =
            if self.cleaned.part == part { self.cleaned.until.clamp(turn + 1, until) } else { turn + 1 };
        let is_worth = until - from > ahead / AHEAD_STEPS;
        let Some(cleaner) = self.cleaner().filter(|_| is_worth) else { return Ok(()) };
        let cleaned = cleaner.try_with(c, |copies| -> Result<u64, PagedError> {
            copies.land(c, store, false)?;
            for turn in from..until {
                if !copies.has_room() {
                    return Ok(turn);
                }
                let id = FrameId::new(part, (turn % frames) as usize);
                let frame = store.frame(id);
                // Relaxed, both: only guesses. What is not marked yet will stay for another round.
                let leaves = P::load(c, &frame.header[MARK], Ordering::Relaxed) != 0
                    && P::load(c, &frame.header[WRITING], Ordering::Relaxed) == 0;
                if leaves {
                    copies.send(c, store, id, false)?;
                }
            }
            Ok(until)
        });
        if let Some(until) = cleaned {
            self.cleaned = CleanedFrames { part, until: until? };
        }
        Ok(())
    }

    /// Waits until one of the copies that are under way has come to the file; false if there are
    /// none.
    fn wait_for_copies(&mut self) -> Result<bool, PagedError> {
        let (c, store) = (self.c, &self.pool.store);
        let Some(cleaner) = self.cleaner() else { return Ok(false) };
        cleaner.with(c, |copies| {
            let some = !copies.is_idle();
            copies.land(c, store, true)?;
            Ok(some)
        })
    }

    /// Takes this frame, if its page can leave now.
    fn try_take(&mut self, frame: Frame<'p, P>, effort: Effort) -> Result<TakenFrame<'p, P>, PagedError> {
        let (c, pool) = (self.c, self.pool);
        // Acquire: pairs with the release of the last holder.
        let version = P::load(c, &frame.header[LATCH], Ordering::Acquire);
        if VersionLatch::<P>::is_latched(version) {
            return Ok(TakenFrame::Stays);
        }
        // Relaxed, all: guesses until the frame is latched at this version.
        let number = P::load(c, &frame.header[PAGE], Ordering::Relaxed);
        if number != 0 {
            let has_mark = P::load(c, &frame.header[MARK], Ordering::Relaxed) != 0;
            if !has_mark || pool.store.file.is_none() {
                return Ok(TakenFrame::Stays);
            }
            let is_under_way = P::load(c, &frame.header[WRITING], Ordering::Relaxed) != 0;
            if is_under_way || effort == Effort::None && frame.has_changed(c, version) {
                return Ok(TakenFrame::HasChanged);
            }
        }
        let Some(held) = (ReadPage { frame, version, number }).latch(c) else { return Ok(TakenFrame::Stays) };
        if number != 0 {
            match self.write_back(&held, effort) {
                Ok(true) => {}
                Ok(false) => {
                    held.unchanged(c);
                    return Ok(TakenFrame::HasChanged);
                }
                Err(error) => {
                    held.unchanged(c);
                    return Err(error);
                }
            }
            self.empty(&held);
        }
        Ok(TakenFrame::Frame(LatchedPage { number: 0, ..held }))
    }

    /// Writes a latched page to the file; returns false if the page has to stay for now.
    fn write_back(&mut self, held: &LatchedPage<'p, P>, effort: Effort) -> Result<bool, PagedError> {
        let (c, store, frame) = (self.c, &self.pool.store, held.frame);
        // Acquire: pairs with the release of the thread that has written it: the file has it, and
        // what is known of it is up to date.
        if P::load(c, &frame.header[WRITING], Ordering::Acquire) != 0 {
            return Ok(false);
        }
        if !frame.has_changed(c, held.version) {
            return Ok(true);
        }
        let file = store.file.as_ref().filter(|file| effort >= Effort::Writes && !file.is_only_read);
        let Some(file) = file else { return Ok(false) };
        let lsn = held.page(1).lsn();
        if let Some(log) = &store.log
            && log.buffer.durable(c) < lsn
            && !store.faults.has(Fault::PagesBeforeLog)
        {
            if effort < Effort::WaitsForLog {
                return Ok(false);
            }
            log.wait(c, lsn, None)?;
        }
        self.channel.write(c, file, held.number, frame.words)?;
        store.has_written(c, held.number, lsn);
        Ok(true)
    }

    /// Returns true if a copy of a latched page is in flight to the file: the page must not be
    /// freed.
    pub(crate) fn is_on_its_way(&self, held: &LatchedPage<'p, P>) -> bool {
        // Acquire: pairs with the release of the thread that has written it.
        P::load(self.c, &held.frame.header[WRITING], Ordering::Acquire) != 0
    }

    /// Forgets the page of a latched frame.
    pub(super) fn empty(&self, held: &LatchedPage<'p, P>) {
        let c = self.c;
        // Relaxed: the latch orders them. Release: pairs with the acquire of the thread that finds
        // that the page is nowhere.
        P::store(c, &held.frame.header[PAGE], 0, Ordering::Relaxed);
        P::store(c, &held.frame.header[MARK], 0, Ordering::Relaxed);
        P::store(c, self.pool.place(held.number), 0, Ordering::Release);
    }
}

impl<P: Files> Pool<P> {
    /// Moves the hand that marks, which is ahead of the one that takes.
    fn mark_ahead(&self, c: P::Core, part: usize, turn: u64) {
        let frames = self.store.frames_per_part;
        let ahead = (frames / MARKED_PART) as u64;
        self.store.frame(FrameId::new(part, (turn + ahead) as usize % frames)).mark(c);
    }

    /// Takes back what has come to the file; with `waits`, until no copy is under way that was sent
    /// before.
    pub(crate) fn land(&self, c: P::Core, waits: bool) -> Result<(), PagedError> {
        for cleaner in &self.cleaners {
            if waits {
                cleaner.with(c, |copies| copies.land_all(c, &self.store))?;
            } else {
                cleaner.try_with(c, |copies| copies.land(c, &self.store, false)).transpose()?;
            }
        }
        Ok(())
    }
}
