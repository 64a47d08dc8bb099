//! Atomic operations without a lock.

use std::sync::atomic::Ordering;

use platform::{OutOfMemory, Platform};

use super::operation::{Operation, count_check};
use super::types::LockSpec;
use crate::Outcome;
use crate::lines::Lines;

/// An array of words, each on its own line.
pub(super) struct Words<P: Platform> {
    lines: Lines<P>,
    count: usize,
    threads: usize,
}

impl<P: Platform> Words<P> {
    pub(super) fn new(c: P::Core, spec: &LockSpec) -> Result<Self, OutOfMemory> {
        let lines = Lines::new(c, spec.home(), spec.locks, "words of atomics")?;
        Ok(Words { lines, count: spec.locks, threads: spec.threads.len() })
    }

    pub(super) fn word(&self, item: usize) -> &P::Word {
        self.lines.word(item, 0)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.count).map(|item| P::peek(self.word(item)))
    }

    /// Name and outcome of the check of operations that add one each.
    pub(super) fn counted(&self, operations: u64) -> (&'static str, Outcome) {
        ("atomic_count", count_check(self.values().sum(), operations))
    }
}

/// Fetch-and-add of 1.
pub(super) struct FetchAndAdd<P: Platform>(pub(super) Words<P>);

impl<P: Platform> Operation<P> for FetchAndAdd<P> {
    type ThreadState = ();

    fn thread_state(&self, _: P::Core, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }

    #[inline]
    fn perform(&self, c: P::Core, item: usize, (): &mut (), then: impl FnOnce()) -> u64 {
        P::fetch_add(c, self.0.word(item), 1, Ordering::AcqRel);
        then();
        0
    }

    fn check(&self, operations: u64, _: &[u64]) -> (&'static str, Outcome) {
        self.0.counted(operations)
    }
}

/// The word that a thread changed last, and its value then.
pub(super) struct LastValue {
    item: usize,
    value: u64,
}

/// Adds 1 by compare-and-swap, repeated until it succeeds, beginning with the value that the thread
/// read last.
pub(super) struct CompareAndSwap<P: Platform>(pub(super) Words<P>);

impl<P: Platform> Operation<P> for CompareAndSwap<P> {
    type ThreadState = LastValue;

    fn thread_state(&self, _: P::Core, _: usize) -> Result<LastValue, OutOfMemory> {
        Ok(LastValue { item: 0, value: 0 })
    }

    #[inline]
    fn perform(&self, c: P::Core, item: usize, last: &mut LastValue, then: impl FnOnce()) -> u64 {
        let mut value = if last.item == item { last.value } else { 0 };
        let mut refused = 0;
        while let Err(seen) = P::cas(c, self.0.word(item), value, value.wrapping_add(1), Ordering::AcqRel) {
            value = seen;
            refused += 1;
        }
        then();
        *last = LastValue { item, value: value.wrapping_add(1) };
        refused
    }

    fn check(&self, operations: u64, _: &[u64]) -> (&'static str, Outcome) {
        self.0.counted(operations)
    }
}

/// Compare-and-swap from a value that no word has: every attempt is refused, and each counts as an
/// operation.
pub(super) struct RefusedCompareAndSwap<P: Platform>(pub(super) Words<P>);

impl<P: Platform> Operation<P> for RefusedCompareAndSwap<P> {
    /// Attempts that were not refused.
    type ThreadState = u64;

    fn thread_state(&self, _: P::Core, _: usize) -> Result<u64, OutOfMemory> {
        Ok(0)
    }

    #[inline]
    fn perform(&self, c: P::Core, item: usize, accepted: &mut u64, then: impl FnOnce()) -> u64 {
        *accepted += u64::from(P::cas(c, self.0.word(item), 1, 2, Ordering::AcqRel).is_ok());
        then();
        0
    }

    fn leave(&self, accepted: u64) -> u64 {
        accepted
    }

    fn check(&self, _: u64, accepted: &[u64]) -> (&'static str, Outcome) {
        let accepted: u64 = accepted.iter().sum();
        let outcome = if accepted == 0 && self.0.values().all(|value| value == 0) {
            Outcome::Ok
        } else {
            Outcome::Violated(format!("{accepted} attempts from a value that no word has were not refused"))
        };
        ("atomic_refused", outcome)
    }
}

/// Exchange: each thread has a token, swaps it into the word, and continues with the token that was
/// there.
pub(super) struct Swap<P: Platform>(Words<P>);

impl<P: Platform> Swap<P> {
    pub(super) fn new(c: P::Core, words: Words<P>) -> Self {
        for item in 0..words.count {
            // Relaxed: published by the start of the threads.
            P::store(c, words.word(item), (words.threads + item) as u64, Ordering::Relaxed);
        }
        Swap(words)
    }

    #[cfg(test)]
    pub(super) fn words(&self) -> &Words<P> {
        &self.0
    }
}

impl<P: Platform> Operation<P> for Swap<P> {
    /// The token that the thread has.
    type ThreadState = u64;

    fn thread_state(&self, _: P::Core, number: usize) -> Result<u64, OutOfMemory> {
        Ok(number as u64)
    }

    #[inline]
    fn perform(&self, c: P::Core, item: usize, token: &mut u64, then: impl FnOnce()) -> u64 {
        *token = P::swap(c, self.0.word(item), *token, Ordering::AcqRel);
        then();
        0
    }

    fn leave(&self, token: u64) -> u64 {
        token
    }

    fn check(&self, _: u64, tokens: &[u64]) -> (&'static str, Outcome) {
        let mut all: Vec<u64> = tokens.iter().copied().chain(self.0.values()).collect();
        all.sort_unstable();
        let lost = (0..).zip(&all).find(|(token, found)| token != *found);
        let outcome = match lost {
            None => Outcome::Ok,
            Some((token, _)) => Outcome::Violated(format!("token {token} was lost, or found twice")),
        };
        ("atomic_tokens", outcome)
    }
}
