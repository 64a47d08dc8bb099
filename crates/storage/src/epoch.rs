//! Epochs: one clock that all workers of a database share, for commit order and for the reclamation
//! of memory.
//!
//! Silo (SOSP 2013, section 4.1) uses one announcement a worker for both purposes, so that a worker
//! that is long inside a transaction delays the commits of all others. Here a worker announces two
//! epochs, in two words of its line:
//!
//! - the epoch that it *entered* in, from [`Participant::enter`] to [`Participant::leave`]. What
//!   was unlinked is not reused while a worker is inside that could have found it (quiescent-state
//!   based reclamation; Fraser, "Practical lock-freedom", 2004). This announcement does not hold
//!   the global epoch;
//! - the epoch that it *commits* in, from the moment at which its commit draws its epoch until the
//!   commit has left all that it has to leave ([`Participant::announce_commit`],
//!   [`Participant::retract_commit`]). The global epoch advances from `g` to `g + 1` only when no
//!   worker commits in an epoch before `g`. So while it is `g`, commits are under way in `g - 1`
//!   and `g` only, and all that commit in `g - 2` or before are over, for ever.
//!
//! An advance also publishes the *horizon*: the smallest epoch that a worker which is inside has
//! entered in, or the global epoch if no worker is inside. A block that was unlinked is dated, with
//! a global epoch that was read after the unlinking, and reused when the horizon is later than its
//! date.
//!
//! Proof that no reader has a block that is reused. There are three fences, all SeqCst: `R` of the
//! reader, between its announcement and its first read; `D` of the worker that unlinked the block,
//! between that and the reading of the date `d`; `H` of the advance, between its reading of the
//! global epoch `g` and of the announcements. If `D` comes before `R`, the reader does not find the
//! block. Otherwise the reader has read the global epoch that it announces before `R`, so `R` comes
//! before `D` and the announcement is at most `d`. If `R` comes before `H`, the advance sees that
//! announcement, or that the reader has left since, and the horizon is at most `d`. If `H` comes
//! before `R`, and so before `D`, then `g` is at most `d`, and the horizon at most `g`. In no case
//! is it later than `d`.
//!
//! Proof that no worker enters in an epoch before the horizon: a worker is inside once it has read,
//! after `R`, the epoch that it announces. If `H` comes before `R`, this reading is at least `g`,
//! hence at least the horizon; otherwise the advance sees the announcement.
//!
//! A worker that notices that the current epoch is older than the configured length claims the
//! advance. No thread exists for this purpose, on hardware or in the virtual machine.

use std::sync::atomic::Ordering;
use terms::Epoch;

use platform::{Intent, LINE_BYTES, Nanos, OutOfMemory, Platform, RegionBytes};

/// The announcement of a worker that is not inside, or does not commit.
const IDLE: u64 = u64::MAX;
/// Announcements that are prefetched ahead of the one that is read: each lies in the cache of its
/// worker.
const AHEAD: usize = 16;
/// Words of a worker's line: the epoch that it entered in, and the one that it commits in.
const ENTERED: usize = 0;
const COMMITTING: usize = 1;
const ANNOUNCEMENTS: usize = 2;

/// Before this epoch, epochs are [drawn](Epochs::draw) as fast as workers need them. A database
/// that draws 200,000 a second without a pause gets there after 127 days.
const LIMITED: u64 = 1 << 41;
/// Average time between two drawn epochs from [`LIMITED`] on: with those of each millisecond less
/// than 4,800 a second, so that they last for a century.
const DRAWN_NANOS: u64 = 265_000;
/// Epochs that are drawn at once may be ahead of that average by this time.
const AHEAD_NANOS_MAX: u64 = 1_000_000_000;

/// The last epoch in which no transaction commits any more, while `current` is the global one:
/// commits under way have announced that or the one before ([`Participant::announce_commit`]), and
/// later ones announce none earlier.
pub fn last_complete(current: Epoch) -> Epoch {
    Epoch(current.0.saturating_sub(2))
}

/// The global epoch and the announcements of all workers.
///
/// Concurrency: line 0 holds the global epoch, the horizon, and the time that drawn epochs account
/// for, line 1 the time of the last advance and the length, then one line a worker.
pub struct Epochs<P: Platform> {
    region: P::Region,
    workers: usize,
}

impl<P: Platform> Epochs<P> {
    /// Epochs of at least `length_nanos` for up to `workers` workers, all idle.
    pub fn new(c: P::Core, workers: usize, length_nanos: u64) -> Result<Self, OutOfMemory> {
        let region = P::region(c, None, (2 + workers) * LINE_BYTES, "epochs")?;
        let epochs = Epochs { region, workers };
        // Relaxed: no other core knows the epochs yet.
        P::store(c, epochs.word(0), 1, Ordering::Relaxed);
        P::store(c, epochs.word(1), P::now(c).0, Ordering::Relaxed);
        epochs.set_length(c, length_nanos);
        for worker in 0..workers {
            P::store(c, epochs.announcement(worker, ENTERED), IDLE, Ordering::Relaxed);
            P::store(c, epochs.announcement(worker, COMMITTING), IDLE, Ordering::Relaxed);
        }
        Ok(epochs)
    }

    fn word(&self, line: usize) -> &P::Word {
        self.word_at(line, 0)
    }

    fn word_at(&self, line: usize, number: usize) -> &P::Word {
        &self.words_at(line, number, 1)[0]
    }

    fn words_at(&self, line: usize, number: usize, count: usize) -> &[P::Word] {
        assert!(line < 2 + self.workers && number + count <= LINE_BYTES / 8);
        // SAFETY: inside the zeroed region, which makes valid words that live as long as `self`.
        unsafe {
            let first = self.region.base().add(line * LINE_BYTES).cast::<P::Word>().add(number);
            std::slice::from_raw_parts(first, count)
        }
    }

    fn announcement(&self, worker: usize, which: usize) -> &P::Word {
        self.word_at(2 + worker, which)
    }

    fn horizon_word(&self) -> &P::Word {
        self.word_at(0, 1)
    }

    /// Shortest time that an epoch lasts, unless a worker waits for its end.
    pub fn length(&self, c: P::Core) -> u64 {
        // Relaxed: a figure.
        P::load(c, self.word_at(1, 1), Ordering::Relaxed)
    }

    /// Makes epochs longer or shorter from now on.
    pub fn set_length(&self, c: P::Core, nanos: u64) {
        // Relaxed: a figure.
        P::store(c, self.word_at(1, 1), nanos, Ordering::Relaxed);
    }

    /// Highest number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The global epoch.
    #[inline]
    pub fn current(&self, c: P::Core) -> Epoch {
        // Acquire: pairs with the advance, which saw all announcements of the epoch before.
        Epoch(P::load(c, self.word(0), Ordering::Acquire))
    }

    /// No worker that is inside has entered in an epoch before this one, nor will any.
    #[inline]
    pub fn horizon(&self, c: P::Core) -> Epoch {
        // Acquire: pairs with the release in `raise_horizon`, for what the workers did that have
        // left.
        Epoch(P::load(c, self.horizon_word(), Ordering::Acquire))
    }

    /// Begins with this epoch. No worker uses the epochs yet.
    ///
    /// # Safety
    /// No worker is inside an epoch, nor commits.
    pub unsafe fn begin_at(&self, c: P::Core, Epoch(epoch): Epoch) {
        // Relaxed: no other core knows the epochs yet.
        P::store(c, self.word(0), epoch, Ordering::Relaxed);
    }

    /// Advances the global epoch if it is old enough and no worker commits in an earlier one. To be
    /// called now and then with the current time: a call costs one shared load when there is
    /// nothing to do.
    pub fn tend(&self, c: P::Core, now: Nanos) {
        // Relaxed: only a hint; the compare and swap decides which worker claims the advance.
        let last = P::load(c, self.word(1), Ordering::Relaxed);
        if now.since(Nanos(last)) < self.length(c) {
            return;
        }
        if P::cas(c, self.word(1), last, now.0, Ordering::Relaxed).is_ok() && !self.try_advance(c) {
            // A worker is long at a commit: the next attempt comes after a part of the length.
            // Relaxed: as above.
            let sooner = now.0.saturating_sub(self.length(c) / 4 * 3);
            P::store(c, self.word(1), sooner, Ordering::Relaxed);
        }
    }

    /// Advances the epoch for a caller that waits for the end of an epoch whose time has not come;
    /// otherwise like [`Self::try_advance`]. From `LIMITED` on a burst of such advances happens
    /// at once, and later ones only as often as makes the epochs last for a century.
    pub fn draw(&self, c: P::Core) -> bool {
        if self.current(c).0 < LIMITED {
            return self.try_advance(c);
        }
        // Relaxed: figures, here and below. One of two that are drawn at the same moment may count
        // for both.
        let (now, accounted) = (P::now(c).0, P::load(c, self.word_at(0, 2), Ordering::Relaxed));
        let draws = accounted <= now.saturating_add(AHEAD_NANOS_MAX) && self.try_advance(c);
        if draws {
            P::store(c, self.word_at(0, 2), accounted.max(now) + DRAWN_NANOS, Ordering::Relaxed);
        }
        draws
    }

    /// Returns true if no commit is under way at this moment: all commits announced before have
    /// left their records.
    pub fn no_commit_is_under_way(&self, c: P::Core) -> bool {
        // SeqCst: pairs with the fence in `Participant::announce_commit`: a commit that is not seen
        // here has not read anything yet that it validates.
        P::fence(c, Ordering::SeqCst);
        let idle = (0..self.workers).all(|worker| {
            // Relaxed: the fence below.
            P::load(c, self.announcement(worker, COMMITTING), Ordering::Relaxed) == IDLE
        });
        // Acquire: pairs with the release in `Participant::retract_commit`.
        P::fence(c, Ordering::Acquire);
        idle
    }

    /// Advances the global epoch if no worker commits in an earlier one, and publishes the horizon.
    pub fn try_advance(&self, c: P::Core) -> bool {
        let Epoch(epoch) = self.current(c);
        // SeqCst: pairs with the fences in `Participant::enter` and `Participant::announce_commit`:
        // either the advance sees the announcement, or the worker sees this epoch, and what was
        // unlinked in it. This fence is `H` of the module's text.
        P::fence(c, Ordering::SeqCst);
        let (mut commits, mut horizon) = (IDLE, epoch);
        for worker in 0..self.workers {
            if worker + AHEAD < self.workers {
                P::prefetch(c, self.word(2 + worker + AHEAD), 8, Intent::Read);
            }
            let mut announced = [0; ANNOUNCEMENTS];
            P::read_words(c, self.words_at(2 + worker, 0, ANNOUNCEMENTS), &mut announced);
            horizon = horizon.min(announced[ENTERED]);
            commits = commits.min(announced[COMMITTING]);
        }
        // Acquire: pairs with the release of announcements: what the workers did before them is
        // over.
        P::fence(c, Ordering::Acquire);
        self.raise_horizon(c, horizon);
        commits >= epoch
            && epoch < Epoch::LAST.0
            // AcqRel: hands on what the announcements carried to the readers of the new epoch.
            && P::cas(c, self.word(0), epoch, epoch + 1, Ordering::AcqRel).is_ok()
    }

    /// No worker but this one that is inside has entered in an epoch before the one that this
    /// gives: the horizon of the others, which is not published.
    pub fn horizon_of_others(&self, c: P::Core, worker: usize) -> Epoch {
        let Epoch(epoch) = self.current(c);
        // SeqCst: as in `try_advance`.
        P::fence(c, Ordering::SeqCst);
        let others = (0..self.workers).filter(|other| *other != worker);
        // Relaxed: the fence below.
        let entered = others.map(|other| P::load(c, self.announcement(other, ENTERED), Ordering::Relaxed));
        let horizon = entered.fold(epoch, u64::min);
        // Acquire: pairs with the release of `Participant::leave`.
        P::fence(c, Ordering::Acquire);
        Epoch(horizon)
    }

    fn raise_horizon(&self, c: P::Core, horizon: u64) {
        // Relaxed: the compare and swap decides.
        let mut seen = P::load(c, self.horizon_word(), Ordering::Relaxed);
        while seen < horizon {
            // Release: hands on what the announcements carried; pairs with the acquire in
            // `horizon`.
            match P::cas(c, self.horizon_word(), seen, horizon, Ordering::AcqRel) {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }
}

/// The announcements of one worker. While a worker is inside (between [`Self::enter`] and
/// [`Self::leave`]), no block that it can reach is reused.
pub struct Participant {
    worker: usize,
    entered: u64,
    committing: u64,
    /// The last global epoch that the worker has read.
    known: u64,
}

impl Participant {
    /// Worker number `worker`, idle. Each number is used by one participant at a time.
    pub fn new(worker: usize) -> Self {
        Participant { worker, entered: IDLE, committing: IDLE, known: 0 }
    }

    /// The worker's number.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// True between `enter` and `leave`.
    pub fn inside(&self) -> bool {
        self.entered != IDLE
    }

    /// The epoch that the worker entered in. Panics when idle.
    pub fn epoch(&self) -> Epoch {
        assert!(self.inside(), "an idle worker has announced no epoch");
        Epoch(self.entered)
    }

    /// Announces the current epoch; true if the epoch has moved since the last announcement. The
    /// caller keeps no reference from before this call. Ends what [`Self::announce_commit`] began.
    #[inline]
    pub fn enter<P: Platform>(&mut self, c: P::Core, epochs: &Epochs<P>) -> bool {
        self.retract_commit(c, epochs);
        let epoch = epochs.current(c).0;
        if epoch == self.entered {
            return false;
        }
        self.entered = self.announce(c, epochs, ENTERED, epoch);
        true
    }

    /// Becomes idle: what was found before may be reused. Ends what [`Self::announce_commit`]
    /// began.
    pub fn leave<P: Platform>(&mut self, c: P::Core, epochs: &Epochs<P>) {
        self.retract_commit(c, epochs);
        // Release: what the worker has read and written happens before the worker's absence is
        // seen.
        P::store(c, epochs.announcement(self.worker, ENTERED), IDLE, Ordering::Release);
        self.entered = IDLE;
    }

    /// A commit draws its epoch. No epoch later than the next begins before
    /// [`Self::retract_commit`].
    ///
    /// The epoch `e` that this returns was read both before and after one SeqCst fence, which is
    /// all that the order of conflicting commits needs. Let `A` have locked what it writes before
    /// its fence, and validate what it has only read afterwards; let `B` be a commit that
    /// overwrites what `A` has read, and that locks the row before a fence of its own. If `B`'s
    /// fence comes first, `A`'s validation sees the lock and `A` aborts. If `A`'s fence comes
    /// first, `B` reads its epoch after its own fence, and `A` had read its epoch before that: the
    /// epoch of `B` is not earlier. Reading the epoch only after the fence would not do: `A` could
    /// read a new epoch after both fences, then validate with a value from before `B`'s lock, which
    /// nothing orders after that reading; and `B`, having read the epoch before it advanced, would
    /// have an earlier one.
    ///
    /// Proof that no commit is left behind in an epoch that is complete: consider the advances from
    /// `e` to `e + 1` and then to `e + 2`. The second advance has read `e + 1` before its fence. If
    /// that fence came before this one, the reading after this one would have given `e + 1` at
    /// least. So the fence of the advance comes later, and the advance sees the announcement, or a
    /// later one.
    #[inline]
    pub fn announce_commit<P: Platform>(&mut self, c: P::Core, epochs: &Epochs<P>) -> Epoch {
        self.committing = self.announce(c, epochs, COMMITTING, self.known);
        Epoch(self.committing)
    }

    /// The epoch that was announced for a commit which is not over.
    pub fn announced_commit(&self) -> Option<Epoch> {
        (self.committing != IDLE).then_some(Epoch(self.committing))
    }

    /// The commit is over: a core that sees this finds everything that the commit had to leave.
    #[inline]
    pub fn retract_commit<P: Platform>(&mut self, c: P::Core, epochs: &Epochs<P>) {
        if self.committing != IDLE {
            // Release: what the commit has left happens before its end is seen.
            P::store(c, epochs.announcement(self.worker, COMMITTING), IDLE, Ordering::Release);
            self.committing = IDLE;
        }
    }

    /// Announces the current epoch, beginning with one that was read before.
    #[inline]
    fn announce<P: Platform>(&mut self, c: P::Core, epochs: &Epochs<P>, which: usize, read: u64) -> u64 {
        let mut epoch = read;
        loop {
            // Release: what the worker did in its former epoch happens before the new announcement
            // is seen.
            P::store(c, epochs.announcement(self.worker, which), epoch, Ordering::Release);
            // SeqCst: pairs with the fence in `try_advance`, and with that of other committers.
            P::fence(c, Ordering::SeqCst);
            let current = epochs.current(c).0;
            self.known = current;
            if current == epoch {
                return epoch;
            }
            epoch = current;
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn epochs_that_are_drawn_last_for_a_century() {
        let c = Hardware::core();
        let epochs = Epochs::<Hardware>::new(c, 1, 0).expect("memory");
        let free = 10;
        // SAFETY: no thread uses them yet.
        unsafe { epochs.begin_at(c, Epoch(LIMITED - free)) };
        assert!((0..free).all(|_| epochs.draw(c)));
        let (first, began) = (epochs.current(c).0, Hardware::now(c));
        let tries = 4 * AHEAD_NANOS_MAX / DRAWN_NANOS;
        let drawn = (0..tries).filter(|_| epochs.draw(c)).count() as u64;
        assert_eq!(epochs.current(c).0, first + drawn);
        let nanos = Hardware::now(c).since(began) + AHEAD_NANOS_MAX;
        assert!((AHEAD_NANOS_MAX / DRAWN_NANOS..=nanos / DRAWN_NANOS + 1).contains(&drawn), "{drawn}");
        assert!(epochs.try_advance(c), "epochs whose time has come go on");
        let (by_itself, drawn) = (1_000, 1_000_000_000 / DRAWN_NANOS);
        assert!((Epoch::LAST.0 - LIMITED) / (by_itself + drawn) > 100 * 366 * 24 * 3600);
    }

    #[test]
    fn a_worker_inside_holds_the_horizon_and_not_the_epoch() {
        let c = Hardware::core();
        let epochs = Epochs::<Hardware>::new(c, 2, 0).expect("memory");
        let (mut first, mut second) = (Participant::new(0), Participant::new(1));
        assert!(first.enter(c, &epochs));
        assert!(!first.enter(c, &epochs));
        let entered = first.epoch();
        assert!((0..5).all(|_| epochs.try_advance(c)));
        assert!(second.enter(c, &epochs));
        assert_eq!(second.epoch(), epochs.current(c));
        assert!(epochs.try_advance(c));
        assert_eq!(epochs.horizon(c), entered);
        assert!(first.enter(c, &epochs));
        assert!(epochs.try_advance(c));
        assert_eq!(epochs.horizon(c), second.epoch());
        first.leave(c, &epochs);
        second.leave(c, &epochs);
        let current = epochs.current(c);
        assert!(epochs.try_advance(c));
        assert_eq!(epochs.horizon(c), current, "idle workers hold nothing");
    }

    #[test]
    fn a_committing_worker_holds_the_epoch() {
        let c = Hardware::core();
        let epochs = Epochs::<Hardware>::new(c, 2, 0).expect("memory");
        let mut worker = Participant::new(0);
        worker.enter(c, &epochs);
        assert!((0..5).all(|_| epochs.try_advance(c)));
        assert_eq!(worker.announce_commit(c, &epochs), epochs.current(c), "whatever it entered in");
        assert!(epochs.try_advance(c), "those of the next epoch depend on nothing that is missing");
        assert!(!epochs.try_advance(c), "a commit of the epoch before is under way");
        worker.retract_commit(c, &epochs);
        assert!(epochs.try_advance(c));
        worker.announce_commit(c, &epochs);
        assert!(epochs.try_advance(c) && !epochs.try_advance(c));
        worker.leave(c, &epochs);
        assert!(epochs.try_advance(c), "leaving ends it");
    }

    #[test]
    fn there_is_a_last_epoch() {
        let c = Hardware::core();
        let epochs = Epochs::<Hardware>::new(c, 1, 0).expect("memory");
        // SAFETY: no worker has entered yet.
        unsafe { epochs.begin_at(c, Epoch(Epoch::LAST.0 - 1)) };
        assert!(epochs.try_advance(c) && !epochs.try_advance(c));
        assert_eq!(epochs.current(c), Epoch::LAST);
        assert_eq!(Epoch::of_stamp(Epoch::LAST.last_stamp()), Epoch::LAST);
        assert_eq!(Epoch::of_stamp(Epoch::LAST.last_stamp() + 1), Epoch(Epoch::LAST.0 + 1));
    }

    #[test]
    fn tending_waits_for_the_length() {
        let c = Hardware::core();
        let epochs = Epochs::<Hardware>::new(c, 1, 1_000_000_000_000).expect("memory");
        let before = epochs.current(c);
        epochs.tend(c, Hardware::now(c));
        assert_eq!(epochs.current(c), before);
        epochs.tend(c, Hardware::now(c).plus(2_000_000_000_000));
        assert_eq!(epochs.current(c), Epoch(before.0 + 1));
    }
}
