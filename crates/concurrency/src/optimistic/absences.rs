//! The absent keys that a transaction saw: the partitions of indexes in whose words it leaves
//! a trace.

use std::sync::atomic::Ordering;

use platform::Platform;
use storage::index::{Gap, GapGuard, GapWords, Partition};

/// Partitions of indexes, each once, by the addresses of their words.
#[derive(Default)]
pub(crate) struct Absences {
    words: Vec<u64>,
    frozen: bool,
}

impl Absences {
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.frozen = false;
    }

    #[inline]
    pub(crate) fn note<P: Platform>(&mut self, partition: &Partition<P>) {
        let words = std::ptr::from_ref(partition.gap_words()).expose_provenance() as u64;
        if !self.words.contains(&words) {
            self.words.push(words);
        }
    }

    fn all<P: Platform>(&self) -> impl Iterator<Item = &GapWords<P>> {
        self.words.iter().map(|words| {
            // SAFETY: words of a partition of this instance, whose memory lives as long as its
            // transactions.
            unsafe { &*std::ptr::with_exposed_provenance::<GapWords<P>>(*words as usize) }
        })
    }

    /// Adds to the counts of all noted partitions.
    ///
    /// Concurrency: an inserting transaction reads the count with the leaf or bucket latched; a
    /// freezing transaction validates leaves and buckets after it has raised the count: one of the
    /// two sees the other.
    fn add<P: Platform>(&self, c: P::Core, change: u64) {
        for words in self.all::<P>() {
            // SeqCst: freezing is ordered before the validation, thawing after it.
            P::fetch_add(c, &words.end, change, Ordering::SeqCst);
        }
    }

    /// Keeps others from inserting into the noted partitions.
    pub(crate) fn freeze<P: Platform>(&mut self, c: P::Core) {
        self.add::<P>(c, 1);
        self.frozen = true;
    }

    /// Lets others insert into the noted partitions again, if they are frozen.
    #[inline]
    pub(crate) fn thaw<P: Platform>(&mut self, c: P::Core) {
        if std::mem::take(&mut self.frozen) {
            self.add::<P>(c, 1u64.wrapping_neg());
        }
    }

    /// Largest stamp of a transaction that removed a key from one of the partitions.
    #[inline]
    pub(crate) fn removed<P: Platform>(&self, c: P::Core) -> u64 {
        // Relaxed: a transaction that saw that a key is gone read its leaf or bucket after the
        // release that followed the raising.
        self.all::<P>().map(|words| P::load(c, &words.removed, Ordering::Relaxed)).fold(0, u64::max)
    }

    /// Leaves a trace in the words of the partitions: keys were seen to be absent at `stamp`. The
    /// trace is `ahead` later, so that readers that follow soon need not write the words again.
    ///
    /// Concurrency: an inserting transaction reads the trace with the leaf or bucket latched; a
    /// transaction that leaves a trace validates leaves and buckets afterwards: one of the two sees
    /// the other. All four accesses are sequentially consistent.
    #[inline]
    pub(crate) fn trace<P: Platform>(&self, c: P::Core, stamp: u64, ahead: u64) {
        for words in self.all::<P>() {
            raise::<P>(c, &words.absent, stamp, stamp + ahead);
        }
    }
}

/// Makes the word at least `new` if it is less than `least`.
pub(super) fn raise<P: Platform>(c: P::Core, word: &P::Word, least: u64, new: u64) {
    // SeqCst, all of them: see `Absences::trace`.
    let mut seen = P::load(c, word, Ordering::SeqCst);
    while seen < least {
        match P::cas(c, word, seen, new, Ordering::SeqCst) {
            Ok(_) => break,
            Err(other) => seen = other,
        }
    }
}

/// Lets insertions pass unless the partition is frozen.
pub(super) struct Frozen<'a, P: Platform> {
    pub(super) c: P::Core,
    pub(super) words: &'a GapWords<P>,
    /// True if traces matter.
    pub(super) traces: bool,
    /// Largest stamp at which the key was seen to be absent.
    pub(super) absent: u64,
}

impl<P: Platform> GapGuard<P> for Frozen<'_, P> {
    const WANTS_GAP: bool = false;
    #[inline]
    fn allow(&mut self, _: Option<Gap<'_, P>>) -> bool {
        // SeqCst: ordered after the latching of the leaf or bucket, see `Absences::add`.
        if P::load(self.c, &self.words.end, Ordering::SeqCst) != 0 {
            return false;
        }
        if self.traces {
            // SeqCst: the same, see `Absences::trace`. Read after the count: a participant leaves
            // its trace before it thaws.
            self.absent = P::load(self.c, &self.words.absent, Ordering::SeqCst);
        }
        true
    }
}
