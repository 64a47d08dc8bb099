//! Times and version words of `tictoc`.
//!
//! A time is the epoch, then a number within it of 10 bits; when an epoch has used up its numbers,
//! those of the next follow, and a worker that gets one of those advances the epoch
//! ([`super::validation`]). A stamp has more bits for the number: a word has to hold a span and
//! flags besides the time, and needs the epochs of stamps, which go on for as long as a database
//! lives. A version word is `wts` in the upper 54 bits, then `rts - wts` in 8, then the flags of
//! all optimistic schemes. A span that is too long for its bits moves `wts` on: readers of the row
//! then take it for a new version, and abort if they need to know that it is the old one. An `rts`
//! in another epoch than `wts` always does that, once a row and epoch.

use terms::{Epoch, STAMP_NUMBER_BITS, Stamp};

use crate::optimistic::{FLAGS, LOCKED};

/// Bits of a number within an epoch.
const NUMBER_BITS: u32 = 10;
/// Bits of `rts - wts`.
const SPAN_BITS: u32 = 8;
const SPAN_MAX: u64 = (1 << SPAN_BITS) - 1;
const FLAG_BITS: u32 = FLAGS.trailing_ones();
const TIME_SHIFT: u32 = FLAG_BITS + SPAN_BITS;

const _: () = assert!(FLAGS == (1 << FLAG_BITS) - 1);
const _: () = assert!(TIME_SHIFT + NUMBER_BITS == STAMP_NUMBER_BITS, "words have the epochs of stamps");

/// The bits that readers change.
pub(super) const DELTA_BITS: u64 = SPAN_MAX << FLAG_BITS;

/// The first time of an epoch.
#[inline(always)]
pub(super) fn first_of(Epoch(epoch): Epoch) -> u64 {
    epoch << NUMBER_BITS
}

/// The time as a stamp.
pub(super) fn stamp_of(time: u64) -> Stamp {
    Stamp(epoch_of(time).first_stamp() | time & ((1 << NUMBER_BITS) - 1))
}

/// The epoch of a time.
#[inline(always)]
pub(super) fn epoch_of(time: u64) -> Epoch {
    Epoch(time >> NUMBER_BITS)
}

/// The time of the last writer.
#[inline(always)]
pub(super) fn wts(word: u64) -> u64 {
    word >> TIME_SHIFT
}

/// The time until which the row is known to be valid.
#[inline(always)]
pub(super) fn rts(word: u64) -> u64 {
    wts(word) + (word >> FLAG_BITS & SPAN_MAX)
}

/// The word of a row that was written at `time`.
#[inline(always)]
pub(super) fn word_at(time: u64) -> u64 {
    time << TIME_SHIFT
}

/// The word of an unlocked row that is valid until `time` at least.
#[inline(always)]
pub(super) fn word_until(word: u64, time: u64) -> u64 {
    let (wts, rts) = (wts(word), rts(word).max(time));
    let wts = wts.max(rts.saturating_sub(SPAN_MAX));
    wts << TIME_SHIFT | (rts - wts) << FLAG_BITS
}

/// Returns true if two words are of one version of a row, locked or not.
#[inline(always)]
pub(super) fn same_version(one: u64, other: u64) -> bool {
    (one ^ other) & !(DELTA_BITS | LOCKED) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_times() {
        let time = first_of(Epoch(7)) + 5;
        let word = word_at(time);
        assert_eq!((wts(word), rts(word), word & FLAGS), (time, time, 0));
        let longer = word_until(word, time + SPAN_MAX);
        assert_eq!((wts(longer), rts(longer)), (time, time + SPAN_MAX));
        assert!(same_version(word, longer | LOCKED));
        assert_eq!(word_until(longer, time + 1), longer, "the span never becomes shorter");
        let later = first_of(Epoch(8));
        let moved = word_until(word, later);
        assert_eq!((wts(moved), rts(moved)), (later - SPAN_MAX, later));
        assert!(!same_version(word, moved));
        assert_eq!(stamp_of(time), Stamp(Epoch(7).first_stamp() + 5));
        assert_eq!(epoch_of(wts(word_at(first_of(Epoch::LAST)))), Epoch::LAST);
        assert!(stamp_of(first_of(Epoch(8)) - 1) < stamp_of(first_of(Epoch(8))));
    }
}
