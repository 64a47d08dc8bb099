//! Pages at a restart: repeated changes, pages that cannot be read and are made anew, and which
//! numbers are free.

use std::sync::atomic::Ordering;

use platform::files::Files;
use terms::Fault;

use super::Pool;
use super::frames::{LatchedPage, MARK, PAGE, ReadPage};
use super::store::{FREE, IN_USE};
use super::worker::PoolWorker;
use crate::error::PagedError;
use crate::log::record::LoggedChange;
use crate::lsn::Lsn;
use crate::page::Change;
use crate::page::{self, PageFault};

/// The state of a page before a change is repeated on it.
enum PageState {
    /// The change is in it, or a later one.
    Newer,
    /// It is as the file has it.
    Readable,
    /// The file has nothing that counts.
    Lost(PagedError),
}

impl<'p, P: Files> PoolWorker<'p, P> {
    /// Makes a change on all of its pages that `wanted` selects and that do not have it yet. `lsn`
    /// is the end of its record.
    ///
    /// # Errors
    /// A page is damaged, and the log does not have it; the log contradicts its pages; the files
    /// refuse.
    pub(crate) fn repeat(
        &mut self,
        logged: &LoggedChange<'_>,
        lsn: Lsn,
        is_wanted: &dyn Fn(u64) -> bool,
    ) -> Result<(), PagedError> {
        for (place, page) in logged.pages.iter().enumerate().filter(|(_, page)| is_wanted(page.number)) {
            if logged.change.frees(place) {
                // What is under way could overtake what the number is used for next.
                self.pool.land(self.c, true)?;
                self.forget(page.number);
                // It may have been written meanwhile, and counted as in use.
                self.mark_state(page.number, |_| FREE);
                continue;
            }
            if logged.change.makes(place) {
                self.mark_state(page.number, |state| state.max(IN_USE));
            }
            let (held, found) = self.obtain(page.number, lsn, logged.change.makes(place))?;
            let result = match found {
                PageState::Newer => {
                    // Whether the file keeps it is not known: no thread has seen a flush since.
                    held.changed(self.c);
                    continue;
                }
                PageState::Readable => self.repeat_on(&held, logged, place, None),
                PageState::Lost(error) => self.repeat_on(&held, logged, place, Some(error)),
            };
            held.page(logged.width).set_lsn(lsn);
            held.changed(self.c);
            result?;
        }
        Ok(())
    }

    /// Sets the known state of a page, if states are kept.
    fn mark_state(&self, number: u64, state: impl FnOnce(u64) -> u64) {
        if let Some(word) = self.pool.store.state(number) {
            P::store(self.c, word, state(P::peek(word)), Ordering::Relaxed);
        }
    }

    /// Makes the part of a change that one of its pages has.
    fn repeat_on(
        &self,
        held: &LatchedPage<'p, P>,
        logged: &LoggedChange<'_>,
        place: usize,
        lost: Option<PagedError>,
    ) -> Result<(), PagedError> {
        let (c, page) = (self.c, held.page(logged.width));
        let image = logged.pages[place].image;
        let is_made = match (self.make_anew(held, logged, place), lost) {
            (Some(is_made), _) => is_made,
            (None, Some(error)) if image.is_empty() => return Err(error),
            (None, _) => (image.is_empty() || page.restore(c, image)) && self.change(held, logged, place),
        };
        is_made.then_some(()).ok_or(PagedError::Contradiction { number: held.number })
    }

    /// Makes a page that a change makes as a whole, in any state before; returns whether the record
    /// has it. `None`: it is changed.
    fn make_anew(&self, held: &LatchedPage<'p, P>, logged: &LoggedChange<'_>, place: usize) -> Option<bool> {
        let (c, page) = (self.c, held.page(logged.width));
        let number = |place: usize| logged.pages[place].number;
        Some(match (logged.change, place) {
            (Change::Split { right: made, .. }, 1)
            | (Change::SplitRoot { left: made, .. }, 1)
            | (Change::SplitRoot { right: made, .. }, 2) => page.restore(c, made),
            (Change::SplitRoot { separator, left, .. }, _) => {
                let level = page::level_of(left)? + 1;
                let children = [number(1), number(2)];
                page.become_root(c, number(0), logged.tree, level, separator, children);
                true
            }
            (Change::MergeRoot { child }, _) => page.become_child(c, number(0), logged.tree, child),
            _ => return None,
        })
    }

    /// Changes a page that is as it was before; whether it can be changed so.
    fn change(&self, held: &LatchedPage<'p, P>, logged: &LoggedChange<'_>, place: usize) -> bool {
        let (c, page) = (self.c, held.page(logged.width));
        match (logged.change, place) {
            (Change::Split { stays, .. }, 0) => {
                page.truncate(c, stays);
                true
            }
            (Change::Split { separator, .. }, _) => {
                let fits = page.level() > 0 && page.fits_child(separator);
                if fits {
                    page.insert_child(c, separator, logged.pages[1].number);
                }
                fits
            }
            (Change::Merge { right, .. }, 0) => {
                self.pool.store.faults.has(Fault::MissingMergeRedo) || page.absorb(c, right)
            }
            (Change::Merge { entry, .. }, _) => {
                let is_there = page.level() > 0 && (1..page.count()).contains(&entry);
                if is_there {
                    page.remove(c, entry);
                }
                is_there
            }
            (change, _) => page.apply_again(c, change),
        }
    }

    /// A page, latched, in any state. A page with changes that the log has lost is not rebuilt, as
    /// other pages may have them as well, unless a later generation `makes` it: then it was free.
    fn obtain(
        &mut self,
        number: u64,
        lsn: Lsn,
        makes: bool,
    ) -> Result<(LatchedPage<'p, P>, PageState), PagedError> {
        let c = self.c;
        loop {
            match self.beyond(number).map_or_else(|| self.read(number), Err) {
                Ok(read) => {
                    let Some(held) = read.latch(c) else { continue };
                    let found =
                        if held.page(1).lsn() >= lsn { PageState::Newer } else { PageState::Readable };
                    return Ok((held, found));
                }
                Err(error @ PagedError::Page { fault: PageFault::Ahead, .. }) if !makes => return Err(error),
                Err(error @ PagedError::Page { .. }) => {
                    let held = self.take_frame()?;
                    let (pool, name) = (self.pool, held.frame.id.0 + 1);
                    // AcqRel: publishes the latched frame.
                    if P::cas(c, pool.place(number), 0, name, Ordering::AcqRel).is_err() {
                        held.frame.latch().unlock_changed(c, held.version);
                        continue;
                    }
                    P::store(c, &held.frame.header[PAGE], number, Ordering::Relaxed);
                    P::store(c, &held.frame.header[MARK], 0, Ordering::Relaxed);
                    let held = LatchedPage { number, ..held };
                    held.page(1).clear(c);
                    // The file has none of its changes.
                    self.mark_state(number, |state| state.min(IN_USE));
                    return Ok((held, PageState::Lost(error)));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The error that reading a page gives, if it is known without: the page is in no frame, and
    /// the file has never had it.
    fn beyond(&self, number: u64) -> Option<PagedError> {
        let store = &self.pool.store;
        let is_nowhere = number <= store.pages_max && self.pool.find(self.c, number).is_none();
        // No other thread is there, and what this life has written is known.
        let file = store.file.as_ref().filter(|_| is_nowhere && store.oldest(number) == Lsn(0))?;
        file.beyond(number)
    }

    /// Drops a page that is free: what a frame has of it is not written.
    fn forget(&mut self, number: u64) {
        let c = self.c;
        while let Some(frame) = self.pool.find(c, number) {
            let Ok(version) = frame.latch().read_begin(c) else { return };
            let read = ReadPage { frame, version, number };
            if let Some(held) = read.latch(c) {
                self.empty(&held);
                held.frame.latch().unlock_changed(c, held.version);
            }
        }
    }
}

impl<P: Files> Pool<P> {
    /// The known state of all pages, by number from 1 on.
    pub(crate) fn states(&self) -> Vec<u64> {
        let pages = P::peek(self.next_page()).min(self.store.pages_max);
        (1..=pages).map(|number| self.store.state(number).map_or(FREE, P::peek)).collect()
    }

    /// Takes over what was known of all pages.
    ///
    /// # Errors
    /// There are more pages than there may be.
    pub(crate) fn set_states(&self, c: P::Core, states: &[u64]) -> Result<(), PagedError> {
        for (number, state) in (1..).zip(states) {
            self.set_state(c, number, *state)?;
        }
        Ok(())
    }

    fn set_state(&self, c: P::Core, number: u64, state: u64) -> Result<(), PagedError> {
        let word = self.store.state(number).filter(|_| number <= self.store.pages_max);
        let word = word.ok_or(PagedError::TooManyPages(self.store.pages_max))?;
        P::store(c, word, state, Ordering::Relaxed);
        let last = P::peek(self.next_page());
        if number > last {
            P::store(c, self.next_page(), number, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Collects the numbers that no page has.
    pub(crate) fn find_free(&self, c: P::Core) {
        let states = self.states();
        let numbers = (1..).zip(states).filter(|(_, state)| *state == FREE).map(|(number, _)| number);
        let free: Vec<u64> = numbers.collect();
        self.free_pages.with(c, |all| *all = free);
    }
}
