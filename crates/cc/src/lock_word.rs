//! One word that is a row's lock and the lock of the gap below it, for schemes that lock.
//!
//! Bit 63: exclusive. Bit 62: pending, the exclusive holder inserts or deletes the row, so the gap below it may be about
//! to change. Bits 32 to 60 count the holders of the gap, bits 0 to 28 the shared holders of the row.
//!
//! A gap lock keeps others from inserting below the row. Those who insert check it with the index latched; those who lock
//! a gap check afterwards that the index has not changed since they read it. Both sides order their own change before
//! their check, so at least one of them sees the other (Mohan's next-key locking, "ARIES/KVL", VLDB 1990, without a lock
//! manager).

use std::sync::atomic::Ordering;

use platform::{Platform, SharedWord};

const EXCLUSIVE: u64 = 1 << 63;
const PENDING: u64 = 1 << 62;
const GAP: u64 = 1 << 32;
const GAPS: u64 = ((1 << 29) - 1) << 32;
const READERS: u64 = (1 << 29) - 1;

/// Somebody else has the lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// The lock of a row and of the gap below it; zeroed memory is unlocked.
#[repr(transparent)]
pub(crate) struct LockWord<P: Platform>(P::Word);

impl<P: Platform> LockWord<P> {
    /// The lock of a row that its creator is inserting.
    pub(crate) fn inserting() -> Self {
        LockWord(P::Word::new(EXCLUSIVE | PENDING))
    }

    /// A plain word as the lock of a gap.
    pub(crate) fn from_word(word: &P::Word) -> &Self {
        // SAFETY: `repr(transparent)`, same lifetime.
        unsafe { &*std::ptr::from_ref(word).cast::<Self>() }
    }

    /// Changes the word by `change`, unless that gives `None`.
    #[inline(always)]
    fn update(&self, c: P::Core, change: impl Fn(u64) -> Option<u64>) -> Result<(), Busy> {
        // Relaxed: only a first guess.
        let mut word = P::load(c, &self.0, Ordering::Relaxed);
        loop {
            let new = change(word).ok_or(Busy)?;
            // SeqCst: acquires what the holder before released; and orders a gap lock before the check of the index.
            match P::cas(c, &self.0, word, new, Ordering::SeqCst) {
                Ok(_) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
    }

    /// Shares the row; with `gap`, locks the gap below it too.
    #[inline(always)]
    pub(crate) fn try_shared(&self, c: P::Core, gap: bool) -> Result<(), Busy> {
        let add = 1 + if gap { GAP } else { 0 };
        self.update(c, |word| (word & EXCLUSIVE == 0).then_some(word + add))
    }

    /// Locks the row for writing; `shared` says that the caller shares it and gives that up.
    #[inline(always)]
    pub(crate) fn try_exclusive(&self, c: P::Core, shared: bool, gap: bool) -> Result<(), Busy> {
        let own = u64::from(shared);
        let add = if gap { GAP } else { 0 };
        self.update(c, |word| {
            (word & EXCLUSIVE == 0 && word & READERS == own).then_some(((word - own) | EXCLUSIVE) + add)
        })
    }

    /// Locks the gap below the row.
    pub(crate) fn try_gap(&self, c: P::Core) -> Result<(), Busy> {
        self.update(c, |word| (word & PENDING == 0).then_some(word + GAP))
    }

    /// Announces that the exclusive holder deletes the row, unless others than the caller (`own` times) have the gap.
    pub(crate) fn try_pend(&self, c: P::Core, own: u64) -> Result<(), Busy> {
        self.update(c, |word| ((word & GAPS) / GAP == own).then_some(word | PENDING))
    }

    /// Whether the caller, who has locked the gap `own` times, may insert below the row.
    pub(crate) fn is_open(&self, c: P::Core, own: u64) -> bool {
        // SeqCst: ordered after the caller's latching of the index, see the module's text.
        P::load(c, &self.0, Ordering::SeqCst) & GAPS == own * GAP
    }

    /// Locks the gap below a row that the caller is inserting into a gap it has locked.
    pub(crate) fn inherit_gap(&self, c: P::Core) {
        P::fetch_add(c, &self.0, GAP, Ordering::Relaxed);
    }

    /// Ends sharing.
    #[inline(always)]
    pub(crate) fn unlock_shared(&self, c: P::Core) {
        // Release: pairs with the next exclusive locker.
        P::fetch_add(c, &self.0, 1u64.wrapping_neg(), Ordering::Release);
    }

    /// Ends exclusive use; `pending` as the caller made it.
    #[inline(always)]
    pub(crate) fn unlock_exclusive(&self, c: P::Core, pending: bool) {
        let held = EXCLUSIVE + if pending { PENDING } else { 0 };
        // Release: pairs with the next locker.
        P::fetch_add(c, &self.0, held.wrapping_neg(), Ordering::Release);
    }

    /// Ends one lock of the gap.
    pub(crate) fn unlock_gap(&self, c: P::Core) {
        // Release: pairs with the check of whoever inserts.
        P::fetch_add(c, &self.0, GAP.wrapping_neg(), Ordering::Release);
    }
}

#[cfg(all(test, not(miri)))]
#[path = "../../storage/tests/loom/platform.rs"]
mod loom_platform;

#[cfg(all(test, not(miri)))]
mod models {
    use std::sync::Arc;

    use loom::thread;
    use platform::RegionBytes;
    use storage::latch::VersionLatch;

    use super::loom_platform::*;
    use super::*;

    type P<O> = LoomPlatform<O>;

    /// One transaction locks a gap and then checks that the index has not changed since it read it; another latches the
    /// index and inserts if nobody has the gap. The first must not be left with a gap lock in a changed index.
    fn gap_lock_against_insertion<O: Weakening>(c: LoomCore) {
        let region = P::<O>::region(c, None, 24, "model").expect("memory");
        declare(region.bytes());
        let region = Arc::new(region);
        let inserter = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                let lock = LockWord::<P<O>>::from_word(P::<O>::word_of(&region, 0));
                let leaf = VersionLatch::<P<O>>::from_word(P::<O>::word_of(&region, 8));
                let version = leaf.acquire(c).expect("not obsolete");
                let inserted = lock.is_open(c, 0);
                if inserted {
                    leaf.unlock_changed(c, version);
                } else {
                    leaf.unlock_unchanged(c, version);
                }
                inserted
            })
        };
        let lock = LockWord::<P<O>>::from_word(P::<O>::word_of(&region, 0));
        let leaf = VersionLatch::<P<O>>::from_word(P::<O>::word_of(&region, 8));
        lock.try_gap(c).expect("nobody deletes the row");
        let unchanged = leaf.is_current(c, 0);
        let inserted = inserter.join().expect("the inserter");
        assert!(!unchanged || !inserted, "a phantom in a locked gap");
    }

    #[test]
    fn gap_locks_keep_insertions_out() {
        explore(4, gap_lock_against_insertion::<AsWritten>);
    }

    #[test]
    fn mutant_gap_locks_that_no_order_covers() {
        expect_caught("phantom", 4, gap_lock_against_insertion::<WithoutSeqCstOperations>);
    }

    /// Two transactions add to a row: a holder excludes the other, and sees what the one before wrote.
    fn holders_exclude_each_other<O: Weakening>(c: LoomCore) {
        let region = P::<O>::region(c, None, 24, "model").expect("memory");
        declare(region.bytes());
        let region = Arc::new(region);
        let add = move |region: &LoomRegion| {
            let lock = LockWord::<P<O>>::from_word(P::<O>::word_of(region, 0));
            let row = P::<O>::word_of(region, 8);
            while lock.try_exclusive(c, false, false).is_err() {
                thread::yield_now();
            }
            P::<O>::poke(row, P::<O>::peek(row) + 1);
            lock.unlock_exclusive(c, false);
        };
        let other = {
            let region = Arc::clone(&region);
            thread::spawn(move || add(&region))
        };
        add(&region);
        other.join().expect("the other holder");
        assert_eq!(P::<O>::peek(P::<O>::word_of(&region, 8)), 2, "an addition is lost");
    }

    #[test]
    fn exclusive_holders_exclude_each_other() {
        explore(4, holders_exclude_each_other::<AsWritten>);
    }

    #[test]
    fn mutant_locks_with_relaxed_exchanges() {
        expect_caught("an addition is lost", 4, holders_exclude_each_other::<WithRelaxedExchanges>);
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn who_excludes_whom() {
        let c = Hardware::core();
        let word = <Hardware as Platform>::Word::new(0);
        let lock = LockWord::<Hardware>::from_word(&word);
        lock.try_shared(c, true).expect("free");
        lock.try_shared(c, false).expect("shared");
        assert_eq!(lock.try_exclusive(c, false, false), Err(Busy));
        assert_eq!(lock.try_exclusive(c, true, false), Err(Busy), "another reader is there");
        lock.unlock_shared(c);
        lock.try_exclusive(c, true, false).expect("the only reader");
        assert_eq!(lock.try_shared(c, false), Err(Busy));
        lock.try_gap(c).expect("an update leaves the gap alone");
        assert_eq!(lock.try_pend(c, 1), Err(Busy), "another has the gap");
        lock.unlock_gap(c);
        lock.try_pend(c, 1).expect("own gap");
        assert_eq!(lock.try_gap(c), Err(Busy), "the row is going away");
        lock.unlock_exclusive(c, true);
        lock.unlock_gap(c);
        assert_eq!(Hardware::peek(&word), 0);
    }
}
