//! Words that a latch guards, the first of them.

use std::sync::atomic::Ordering;

use platform::Platform;

// Relaxed, both: a latch orders them.
pub(super) fn get<P: Platform>(c: P::Core, word: &P::Word) -> u64 {
    P::load(c, word, Ordering::Relaxed)
}

pub(super) fn set<P: Platform>(c: P::Core, word: &P::Word, value: u64) {
    P::store(c, word, value, Ordering::Relaxed);
}

/// Runs `body` with a latch, the first of these words.
pub(super) fn latched<P: Platform, R>(c: P::Core, words: &[P::Word], body: impl FnOnce() -> R) -> R {
    // Acquire: pairs with the release below.
    while P::cas(c, &words[0], 0, 1, Ordering::Acquire).is_err() {
        P::spin_while(c, &words[0], 1, None);
    }
    let result = body();
    // Release: pairs with the acquire of the next holder.
    P::store(c, &words[0], 0, Ordering::Release);
    result
}
