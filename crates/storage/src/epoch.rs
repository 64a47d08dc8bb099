//! Epochs: one clock that all workers of a database share, for reclamation and for commit order.
//!
//! The design is quiescent-state based (Fraser, "Practical lock-freedom", 2004; Silo, SOSP 2013, section 4.1 uses one
//! epoch for both purposes). The global epoch advances from `g` to `g + 1` only when every active worker has announced
//! `g`. A worker announces anew at the beginning of a transaction, and only if the global epoch has moved: between two
//! advances, beginning a transaction costs one load of a line that everybody shares.
//!
//! What a worker unlinked while it announced `e` may be reused once the global epoch is `e + 3`: the global epoch was at
//! most `e + 1` at that moment, so readers that could have found it announced at most `e + 1`, and the step to `e + 3`
//! needed all of them to announce `e + 2` or to be idle.
//!
//! Whoever notices that the current epoch is older than the configured length claims the advance: there is no thread of
//! its own for it, so the virtual machine needs none either.

use std::sync::atomic::Ordering;

use platform::{Intent, LINE_BYTES, Nanos, OutOfMemory, Platform, RegionBytes};

/// Number of an epoch; the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// What an idle worker announces.
const IDLE: u64 = u64::MAX;
/// Epochs that pass between an unlinking and the reuse of the memory.
const GRACE_EPOCHS: u64 = 3;
/// Announcements that are brought closer ahead of the one that is looked at: each lies in the cache of its worker.
const AHEAD: usize = 16;

/// The global epoch and the announcements of all workers.
///
/// Concurrency: line 0 holds the global epoch, line 1 the time of the last advance and the length, then one line a worker.
pub struct Epochs<P: Platform> {
    region: P::Region,
    workers: usize,
}

impl<P: Platform> Epochs<P> {
    /// Epochs of at least `length_nanos` for up to `workers` workers, all idle.
    pub fn new(c: P::Core, workers: usize, length_nanos: u64) -> Result<Self, OutOfMemory> {
        let region = P::region(c, None, (2 + workers) * LINE_BYTES, "epochs")?;
        let epochs = Epochs { region, workers };
        // Relaxed: nobody else knows the epochs yet.
        P::store(c, epochs.word(0), 1, Ordering::Relaxed);
        P::store(c, epochs.word(1), P::now(c).0, Ordering::Relaxed);
        epochs.set_length(c, length_nanos);
        for worker in 0..workers {
            P::store(c, epochs.word(2 + worker), IDLE, Ordering::Relaxed);
        }
        Ok(epochs)
    }

    fn word(&self, line: usize) -> &P::Word {
        self.word_at(line, 0)
    }

    fn word_at(&self, line: usize, number: usize) -> &P::Word {
        assert!(line < 2 + self.workers && number < LINE_BYTES / 8);
        // SAFETY: inside the zeroed region, which makes valid words that live as long as `self`.
        unsafe { &*self.region.base().add(line * LINE_BYTES).cast::<P::Word>().add(number) }
    }

    /// Shortest time that an epoch lasts, unless somebody waits for its end.
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

    /// The global epoch, ordered after everything the caller did before: what a commit reads between locking its writes
    /// and validating its reads.
    pub fn current_ordered(&self, c: P::Core) -> Epoch {
        // SeqCst: pairs with the same fence of other committers, so that epochs order conflicting transactions.
        P::fence(c, Ordering::SeqCst);
        Epoch(P::load(c, self.word(0), Ordering::Acquire))
    }

    /// The global epoch.
    pub fn current(&self, c: P::Core) -> Epoch {
        // Acquire: pairs with the advance, which saw all announcements of the epoch before.
        Epoch(P::load(c, self.word(0), Ordering::Acquire))
    }

    /// Begins with this epoch. Nobody uses the epochs yet.
    pub fn begin_at(&mut self, c: P::Core, Epoch(epoch): Epoch) {
        // Relaxed: nobody else knows the epochs yet.
        P::store(c, self.word(0), epoch, Ordering::Relaxed);
    }

    /// Advances the global epoch if it is old enough and everybody has announced it. Call it now and then with the
    /// current time; it costs one shared load when there is nothing to do.
    pub fn tend(&self, c: P::Core, now: Nanos) {
        // Relaxed: only a hint; the compare and swap decides who claims.
        let last = P::load(c, self.word(1), Ordering::Relaxed);
        if now.since(Nanos(last)) < self.length(c) {
            return;
        }
        if P::cas(c, self.word(1), last, now.0, Ordering::Relaxed).is_ok() && !self.try_advance(c) {
            // Somebody is long inside: the next attempt comes after a part of the length. Relaxed: as above.
            let sooner = now.0.saturating_sub(self.length(c) / 4 * 3);
            P::store(c, self.word(1), sooner, Ordering::Relaxed);
        }
    }

    /// Advances the global epoch if every active worker has announced it.
    pub fn try_advance(&self, c: P::Core) -> bool {
        let epoch = self.current(c).0;
        // SeqCst: pairs with the fence in `Participant::enter`: either we see the announcement, or the worker's later
        // reads see everything that was unlinked before this fence.
        P::fence(c, Ordering::SeqCst);
        for worker in 0..self.workers {
            if worker + AHEAD < self.workers {
                P::prefetch(c, self.word(2 + worker + AHEAD), 8, Intent::Read);
            }
            // Acquire: pairs with the release of announcements: what the worker did in its former epoch is over.
            let announced = P::load(c, self.word(2 + worker), Ordering::Acquire);
            if announced != IDLE && announced != epoch {
                return false;
            }
        }
        // AcqRel: hands on what the announcements carried to whoever reads the new epoch.
        P::cas(c, self.word(0), epoch, epoch + 1, Ordering::AcqRel).is_ok()
    }
}

/// One worker's announcement. A worker that is inside (between [`Self::enter`] and [`Self::leave`]) keeps whatever it can
/// reach from being reused.
pub struct Participant {
    worker: usize,
    announced: u64,
}

impl Participant {
    /// Worker number `worker`, idle. Each number is used by one participant at a time.
    pub fn new(worker: usize) -> Self {
        Participant { worker, announced: IDLE }
    }

    /// The worker's number.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// True between `enter` and `leave`.
    pub fn inside(&self) -> bool {
        self.announced != IDLE
    }

    /// The announced epoch. Panics when idle.
    pub fn epoch(&self) -> Epoch {
        assert!(self.inside(), "an idle worker has announced no epoch");
        Epoch(self.announced)
    }

    /// Announces the current epoch; true if it moved since the last announcement. The caller keeps no reference from
    /// before this call.
    #[inline]
    pub fn enter<P: Platform>(&mut self, c: P::Core, epochs: &Epochs<P>) -> bool {
        let mut epoch = epochs.current(c).0;
        if epoch == self.announced {
            return false;
        }
        loop {
            // Release: what the worker did in its former epoch happens before whoever sees the new announcement.
            P::store(c, epochs.word(2 + self.worker), epoch, Ordering::Release);
            // SeqCst: pairs with the fence in `try_advance`.
            P::fence(c, Ordering::SeqCst);
            // A worker that was idle may have read an epoch long past: nobody waited for it. What it then retired would
            // be reused too early. Once the current epoch is announced, the global one moves by one at most.
            let current = epochs.current(c).0;
            if current == epoch {
                break;
            }
            epoch = current;
        }
        self.announced = epoch;
        true
    }

    /// Becomes idle: the epoch may advance without this worker.
    pub fn leave<P: Platform>(&mut self, c: P::Core, epochs: &Epochs<P>) {
        // Release: as in `enter`.
        P::store(c, epochs.word(2 + self.worker), IDLE, Ordering::Release);
        self.announced = IDLE;
    }
}

/// True once memory that was unlinked by a worker which announced `retired` can be reused.
pub fn is_past(retired: Epoch, current: Epoch) -> bool {
    current.0 >= retired.0 + GRACE_EPOCHS
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn a_worker_inside_holds_the_epoch() {
        let c = Hardware::core();
        let epochs = Epochs::<Hardware>::new(c, 2, 0).expect("memory");
        let (mut first, mut second) = (Participant::new(0), Participant::new(1));
        assert!(first.enter(c, &epochs));
        assert!(!first.enter(c, &epochs));
        assert!(epochs.try_advance(c), "the only active worker has announced the current epoch");
        assert!(second.enter(c, &epochs));
        assert!(!epochs.try_advance(c), "the first worker is still in the epoch before");
        assert!(first.enter(c, &epochs));
        assert!(epochs.try_advance(c));
        first.leave(c, &epochs);
        second.leave(c, &epochs);
        assert!(epochs.try_advance(c) && epochs.try_advance(c), "idle workers hold nothing");
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
