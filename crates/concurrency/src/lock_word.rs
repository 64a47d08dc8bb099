//! One word that is a row's lock and the lock of the gap below it, for schemes that lock.
//!
//! Bit 63: exclusive. Bit 62: pending, the exclusive holder inserts or deletes the row, so the gap
//! below it may be about to change. Bit 61: a waiting transaction is not to be overtaken. Bits 49
//! to 60 count the holders of the gap, bits 37 to 48 the shared holders of the row. Bits 0 to 36
//! are the tag: what a policy of waiting writes down about the holders. The highest bit of a count
//! means that it is full.
//!
//! Where rows are locked by managers ([`crate::locking`]), bits 63 and 48 are both set in the word
//! of a row, which they never are otherwise: no transaction gets the row by this word. Bits 0 to 41
//! are the address of the row's manager then, in lines; 0: none was needed yet, and the row is
//! free. The gap below the row is locked by the word as ever.
//!
//! A gap lock keeps others from inserting below the row. An inserting transaction checks the lock
//! with the index latched; a transaction that locks a gap checks afterwards that the index has not
//! changed since it read the index. Both sides order their own change before their check, so at
//! least one of them sees the other (Mohan's next-key locking, "ARIES/KVL", VLDB 1990, without a
//! lock manager).

use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Nanos, Platform, SharedWord};

use crate::options::Lockers;

const EXCLUSIVE: u64 = 1 << 63;
const PENDING: u64 = 1 << 62;
const WAITED: u64 = 1 << 61;
const GAP: u64 = 1 << 49;
const GAPS_FULL: u64 = 1 << 60;
const GAPS: u64 = (1 << 61) - GAP;
const READER: u64 = 1 << TAG_BITS;
const READERS_FULL: u64 = 1 << 48;
const READERS: u64 = (1 << 49) - READER;
/// Bits of a tag.
pub(crate) const TAG_BITS: u32 = 37;
const TAG: u64 = (1 << TAG_BITS) - 1;
/// The bit of a tag that says that a transaction sleeps until the lock is its own, under a policy
/// with queues: who gives something of the lock back looks into the queue.
const SLEEPERS: u64 = 1 << (TAG_BITS - 1);
/// Tag of a row that is gone for good. The row stays locked exclusively.
pub(crate) const TAG_GONE: u64 = TAG;

/// A row whose lock is a manager.
const MANAGED: u64 = EXCLUSIVE | READERS_FULL;
/// The address of a manager, in lines.
const MANAGER: u64 = (1 << 42) - 1;

/// The value of a lock word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockState(u64);

impl LockState {
    pub(crate) fn tag(self) -> u64 {
        self.0 & TAG
    }

    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }

    /// Returns true if any transaction holds the row or the gap.
    pub(crate) fn is_held(self) -> bool {
        self.0 & (EXCLUSIVE | READERS | GAPS) != 0
    }

    /// Returns true if a waiting transaction is not to be overtaken.
    pub(crate) fn is_waited(self) -> bool {
        self.0 & WAITED != 0
    }

    /// Returns true if the row is gone for good.
    pub(crate) fn is_gone(self) -> bool {
        self.tag() == TAG_GONE
    }

    /// Returns true if the row's lock is a manager.
    pub(crate) fn is_managed(self) -> bool {
        self.0 & MANAGED == MANAGED
    }

    /// Returns true if a transaction sleeps until the lock is its own, or the row is gone.
    #[inline(always)]
    pub(crate) fn has_sleepers(self) -> bool {
        self.0 & SLEEPERS != 0
    }

    /// Returns true if transactions sleep for the lock, and may be overtaken.
    pub(crate) fn is_open(self) -> bool {
        self.has_sleepers() && !self.is_waited()
    }

    /// The tag without the bit that says that a transaction sleeps.
    pub(crate) fn holder_tag(self) -> u64 {
        self.0 & (TAG & !SLEEPERS)
    }

    /// The word with a tag, which leaves the bit as it is that says that a transaction sleeps.
    pub(crate) fn with_holder_tag(self, tag: u64) -> Self {
        LockState(self.0 & !(TAG & !SLEEPERS) | tag)
    }

    /// The word of a lock that transactions sleep for, who are not to be overtaken, or of one that
    /// no transaction waits for.
    pub(crate) fn slept_for(self, slept_for: bool) -> Self {
        let bits = WAITED | SLEEPERS;
        LockState(if slept_for { self.0 | bits } else { self.0 & !bits })
    }

    pub(crate) fn with_tag(self, tag: u64) -> Self {
        LockState((self.0 & !TAG) | tag)
    }

    pub(crate) fn waited(self, waited: bool) -> Self {
        LockState(if waited { self.0 | WAITED } else { self.0 & !WAITED })
    }
}

/// A lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To share the row; with `gap`, the gap below it too.
    Shared { gap: bool },
    /// To hold the row for writing; `shared`: the caller shares the row and gives that up.
    Exclusive { shared: bool, gap: bool },
    /// The gap below the row.
    Gap,
    /// To announce that the exclusive holder deletes the row: no transaction but the caller (`own`
    /// times) has the gap.
    Pend { own: u64 },
    /// To know that no transaction but the caller (`own` times) has the gap; takes nothing.
    Open { own: u64 },
}

impl Want {
    /// The word once it is granted, with the same tag; `None`: not while others hold what they
    /// hold.
    #[inline(always)]
    pub(crate) fn grant(self, LockState(word): LockState) -> Option<LockState> {
        let (free, new) = match self {
            Want::Shared { gap } => {
                let (full, add) = if gap { (GAPS_FULL, GAP) } else { (0, 0) };
                (word & (EXCLUSIVE | READERS_FULL | full) == 0, word.wrapping_add(READER + add))
            }
            Want::Exclusive { shared, gap } => {
                let (full, add) = if gap { (GAPS_FULL, GAP) } else { (0, 0) };
                let own = if shared { READER } else { 0 };
                let free = word & (EXCLUSIVE | READERS | full) == own;
                (free, (word.wrapping_sub(own) | EXCLUSIVE).wrapping_add(add))
            }
            Want::Gap => (word & (PENDING | GAPS_FULL) == 0, word.wrapping_add(GAP)),
            Want::Pend { own } => (word & GAPS == own * GAP, word | PENDING),
            Want::Open { own } => (word & GAPS == own * GAP, word),
        };
        free.then_some(LockState(new))
    }
}

/// How tags follow the holders of a lock.
pub trait Tagging {
    /// True if transactions wait for locks: then a new holder leaves its tag, and does not overtake
    /// waiting transactions.
    const WAITS: bool;
    /// The word `granted` to a transaction with this tag, which was `before`.
    fn join(before: LockState, granted: LockState, want: Want, tag: u64) -> LockState;
}

/// The lock of a row and of the gap below it; zeroed memory is unlocked.
#[repr(transparent)]
pub(crate) struct LockWord<P: Platform>(P::Word);

impl<P: Platform> LockWord<P> {
    /// The lock of a row that its creator is inserting.
    pub(crate) fn inserting() -> Self {
        LockWord(P::Word::new(EXCLUSIVE | PENDING))
    }

    /// Unlocks the lock of a row that no other transaction knows yet.
    pub(crate) fn open(&self) {
        P::poke(&self.0, 0);
    }

    /// A plain word as the lock of a gap.
    pub(crate) fn from_word(word: &P::Word) -> &Self {
        // SAFETY: `repr(transparent)`, same lifetime.
        unsafe { &*std::ptr::from_ref(word).cast::<Self>() }
    }

    /// Leaves the creator's tag in the lock of a row that no other transaction knows yet.
    pub(crate) fn tag_inserting(&self, c: P::Core, tag: u64) {
        // Relaxed: published by the index.
        P::store(c, &self.0, EXCLUSIVE | PENDING | tag, Ordering::Relaxed);
    }

    /// Unlocks the lock of a row that no other transaction knows yet, and will have a manager.
    pub(crate) fn open_managed(&self) {
        P::poke(&self.0, MANAGED);
    }

    /// Names the manager of a row that its creator is inserting, and that no other transaction
    /// knows yet.
    pub(crate) fn insert_managed(&self, c: P::Core, manager: u64) {
        // Relaxed: published by the index.
        P::store(c, &self.0, MANAGED | PENDING | (manager / LINE_BYTES as u64), Ordering::Relaxed);
    }

    /// The address of the row's manager; 0 if there is none yet.
    pub(crate) fn manager(&self, c: P::Core) -> u64 {
        // Acquire: pairs with `name_manager`, and with the publication by the index: the manager is
        // initialised.
        let word = P::load(c, &self.0, Ordering::Acquire);
        if word & MANAGED == MANAGED { (word & MANAGER) * LINE_BYTES as u64 } else { 0 }
    }

    /// Names the manager of a row that has none; the address of the manager that the row has then,
    /// which another transaction may have made.
    pub(crate) fn name_manager(&self, c: P::Core, manager: u64) -> u64 {
        let mut before = P::load(c, &self.0, Ordering::Relaxed);
        loop {
            if before & MANAGER != 0 {
                // What `manager` orders.
                return self.manager(c);
            }
            // SeqCst: pairs with the acquire of `manager`; as all exchanges of lock words.
            match P::cas(c, &self.0, before, before | (manager / LINE_BYTES as u64), Ordering::SeqCst) {
                Ok(_) => return manager,
                Err(seen) => before = seen,
            }
        }
    }

    /// Takes a lock of the gap, or what is wanted of it, in a word whose other bits are not the
    /// caller's; whether that is possible at once.
    pub(crate) fn take_gap(&self, c: P::Core, want: Want) -> bool {
        let mut before = self.state(c);
        loop {
            let Some(granted) = want.grant(before) else { return false };
            match self.exchange(c, before, granted) {
                Ok(()) => return true,
                Err(seen) => before = seen,
            }
        }
    }

    /// The exclusive holder inserts or deletes the row no longer.
    pub(crate) fn unlock_pending(&self, c: P::Core) {
        // Release: pairs with the next locker of the gap.
        P::fetch_add(c, &self.0, PENDING.wrapping_neg(), Ordering::Release);
    }

    /// Takes what is wanted, unless others are in the way or wait: then returns the state of the
    /// word.
    #[inline(always)]
    pub(crate) fn acquire<T: Tagging>(
        &self,
        c: P::Core,
        lockers: Lockers,
        want: Want,
        tag: u64,
    ) -> Result<(), LockState> {
        // Relaxed: only a first guess.
        let mut before = LockState(P::load(c, &self.0, Ordering::Relaxed));
        loop {
            let granted = want.grant(before).ok_or(before)?;
            // A tag would overwrite the address of a manager.
            if T::WAITS && (before.is_waited() || before.is_managed()) {
                return Err(before);
            }
            let granted = T::join(before, granted, want, tag);
            if lockers == Lockers::One {
                // Relaxed: for the caller alone.
                P::store(c, &self.0, granted.0, Ordering::Relaxed);
                return Ok(());
            }
            match self.exchange(c, before, granted) {
                Ok(()) => return Ok(()),
                Err(seen) => before = seen,
            }
        }
    }

    /// Takes back from the word what the caller holds; the state before.
    #[inline(always)]
    fn give_back(&self, c: P::Core, lockers: Lockers, held: u64) -> LockState {
        LockState(match lockers {
            Lockers::Several => {
                // Release: pairs with the next holder: of the row, or of the gap when its insertion
                // is checked.
                P::fetch_add(c, &self.0, held.wrapping_neg(), Ordering::Release)
            }
            Lockers::One => {
                // Relaxed, twice: for the caller alone.
                let word = P::load(c, &self.0, Ordering::Relaxed);
                P::store(c, &self.0, word.wrapping_sub(held), Ordering::Relaxed);
                word
            }
        })
    }

    /// Replaces the state of the word if it is still `before`.
    #[inline(always)]
    pub(crate) fn exchange(&self, c: P::Core, before: LockState, after: LockState) -> Result<(), LockState> {
        // SeqCst: acquires what the holder before released; and orders a gap lock before the check
        // of the index.
        P::cas(c, &self.0, before.0, after.0, Ordering::SeqCst).map(|_| ()).map_err(LockState)
    }

    /// Waits until the state of the word is not `seen`, or until the deadline; returns the state.
    pub(crate) fn wait_while(&self, c: P::Core, seen: LockState, deadline: Option<Nanos>) -> LockState {
        LockState(P::spin_while(c, &self.0, seen.0, deadline))
    }

    /// The word's value for a transaction that has latched the index.
    pub(crate) fn state(&self, c: P::Core) -> LockState {
        // SeqCst: ordered after the caller's latching of the index, see the module's text.
        LockState(P::load(c, &self.0, Ordering::SeqCst))
    }

    /// Locks the gap below a row that the caller is inserting into a gap it has locked.
    pub(crate) fn inherit_gap(&self, c: P::Core) {
        P::fetch_add(c, &self.0, GAP, Ordering::Relaxed);
    }

    /// Ends sharing; the state before, as from the methods that follow.
    #[inline(always)]
    pub(crate) fn unlock_shared(&self, c: P::Core, lockers: Lockers) -> LockState {
        self.give_back(c, lockers, READER)
    }

    /// Ends exclusive use; `pending` as the caller made it.
    #[inline(always)]
    pub(crate) fn unlock_exclusive(&self, c: P::Core, lockers: Lockers, pending: bool) -> LockState {
        self.give_back(c, lockers, EXCLUSIVE + if pending { PENDING } else { 0 })
    }

    /// Ends one lock of the gap.
    pub(crate) fn unlock_gap(&self, c: P::Core, lockers: Lockers) -> LockState {
        self.give_back(c, lockers, GAP)
    }

    /// Tells waiting transactions that the row, which the caller has locked exclusively, is gone
    /// for good.
    pub(crate) fn mark_gone(&self, c: P::Core) -> LockState {
        let mut before = LockState(P::load(c, &self.0, Ordering::Relaxed));
        while let Err(seen) = self.exchange(c, before, before.with_tag(TAG_GONE)) {
            before = seen;
        }
        before
    }
}

#[cfg(test)]
struct Untagged;

#[cfg(test)]
impl Tagging for Untagged {
    const WAITS: bool = false;
    fn join(_: LockState, granted: LockState, _: Want, _: u64) -> LockState {
        granted
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

    const EXCLUSIVELY: Want = Want::Exclusive { shared: false, gap: false };

    /// One transaction locks a gap and then checks that the index has not changed since it read it;
    /// another latches the index and inserts if no transaction has the gap. The first must not be
    /// left with a gap lock in a changed index.
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
                let inserted = Want::Open { own: 0 }.grant(lock.state(c)).is_some();
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
        lock.acquire::<Untagged>(c, Lockers::Several, Want::Gap, 0).expect("no transaction deletes the row");
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

    /// Two transactions add to a row: a holder excludes the other, and sees what the one before
    /// wrote.
    fn holders_exclude_each_other<O: Weakening>(c: LoomCore) {
        let region = P::<O>::region(c, None, 24, "model").expect("memory");
        declare(region.bytes());
        let region = Arc::new(region);
        let add = move |region: &LoomRegion| {
            let lock = LockWord::<P<O>>::from_word(P::<O>::word_of(region, 0));
            let row = P::<O>::word_of(region, 8);
            while lock.acquire::<Untagged>(c, Lockers::Several, EXCLUSIVELY, 0).is_err() {
                thread::yield_now();
            }
            P::<O>::poke(row, P::<O>::peek(row) + 1);
            lock.unlock_exclusive(c, Lockers::Several, false);
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

    fn take(lock: &LockWord<Hardware>, want: Want) -> bool {
        lock.acquire::<Untagged>(Hardware::core(), Lockers::Several, want, 0).is_ok()
    }

    fn exclusive(shared: bool) -> Want {
        Want::Exclusive { shared, gap: false }
    }

    #[test]
    fn who_excludes_whom() {
        let c = Hardware::core();
        let word = <Hardware as Platform>::Word::new(0);
        let lock = LockWord::<Hardware>::from_word(&word);
        assert!(take(lock, Want::Shared { gap: true }), "free");
        assert!(take(lock, Want::Shared { gap: false }), "shared");
        assert!(!take(lock, exclusive(false)));
        assert!(!take(lock, exclusive(true)), "another reader is there");
        lock.unlock_shared(c, Lockers::Several);
        assert!(take(lock, exclusive(true)), "the only reader");
        assert!(!take(lock, Want::Shared { gap: false }));
        assert!(take(lock, Want::Gap), "an update leaves the gap alone");
        assert!(!take(lock, Want::Pend { own: 1 }), "another has the gap");
        lock.unlock_gap(c, Lockers::Several);
        assert!(take(lock, Want::Pend { own: 1 }), "own gap");
        assert!(!take(lock, Want::Gap), "the row is going away");
        lock.unlock_exclusive(c, Lockers::Several, true);
        lock.unlock_gap(c, Lockers::Several);
        assert_eq!(Hardware::peek(&word), 0);
    }

    #[test]
    fn counts_that_are_full_refuse_more() {
        let c = Hardware::core();
        let word = <Hardware as Platform>::Word::new(0);
        let lock = LockWord::<Hardware>::from_word(&word);
        let most = READERS_FULL / READER;
        assert!((0..most).all(|_| take(lock, Want::Shared { gap: true })));
        assert!(!take(lock, Want::Shared { gap: false }) && !take(lock, Want::Gap));
        lock.unlock_shared(c, Lockers::Several);
        assert!(take(lock, Want::Shared { gap: false }) && !take(lock, Want::Shared { gap: true }));
        (0..most).for_each(|_| {
            lock.unlock_shared(c, Lockers::Several);
            lock.unlock_gap(c, Lockers::Several);
        });
        assert_eq!(Hardware::peek(&word), 0);
    }

    #[test]
    fn rows_that_are_gone_stay_locked() {
        let c = Hardware::core();
        let word = <Hardware as Platform>::Word::new(0);
        let lock = LockWord::<Hardware>::from_word(&word);
        assert!(
            take(lock, Want::Exclusive { shared: false, gap: true }) && take(lock, Want::Pend { own: 1 })
        );
        lock.mark_gone(c);
        lock.unlock_gap(c, Lockers::Several);
        assert!(lock.state(c).is_gone() && lock.state(c).is_exclusive());
        assert!(!take(lock, Want::Shared { gap: false }) && !take(lock, Want::Gap));
    }
}
