//! Rows of `hstore`: where they belong, and what a transaction does to them in place.

use std::sync::atomic::Ordering;

use platform::{Platform, SharedWord};
use storage::{RecordHeader, RecordRef};

use super::sites::Site;
use super::undo::Step;
use super::{Row, State};
use crate::scheme::{Found, Stamp};
use crate::writes::place;

const DELETED: u64 = 1;
/// Words that are overwritten without going through a list: most fields are of one.
const FEW_WORDS: usize = 4;

/// The site of a row, and whether the transaction that holds it has deleted the row.
#[repr(transparent)]
pub struct Home<P: Platform>(P::Word);

impl<P: Platform> RecordHeader<P> for Home<P> {
    fn inserting() -> Self {
        Home(P::Word::new(0))
    }
}

// Relaxed, all of them: the site never changes once the row is linked; the other bit is that of the site's holder.
impl<P: Platform> Home<P> {
    pub(super) fn site(&self, c: P::Core) -> Site {
        Site((P::load(c, &self.0, Ordering::Relaxed) >> 1) as u32)
    }

    /// Of a new row, whose lines were declared written.
    pub(super) fn set_site(&self, Site(site): Site) {
        P::poke(&self.0, u64::from(site) << 1);
    }

    /// As [`Self::site`], of a row whose site is held, without a touch.
    fn held_site(&self) -> Site {
        Site((P::peek(&self.0) >> 1) as u32)
    }

    pub(super) fn is_deleted(&self, c: P::Core) -> bool {
        P::load(c, &self.0, Ordering::Relaxed) & DELETED != 0
    }

    pub(super) fn set_deleted(&self, c: P::Core, deleted: bool) {
        let word = P::load(c, &self.0, Ordering::Relaxed) & !DELETED;
        P::store(c, &self.0, word | u64::from(deleted), Ordering::Relaxed);
    }
}

/// The row's last word, which points to its tail if it has one.
pub(super) fn last_word<P: Platform>(c: P::Core, row: Row<P>) -> u64 {
    row.words().last().map_or(0, |word| P::load(c, word, Ordering::Relaxed))
}

/// One row that the transaction has found: the same row again is another one.
pub(super) struct Taken<P: Platform> {
    pub(super) row: RecordRef<P, Home<P>>,
    pub(super) table: u32,
    pub(super) read_only: bool,
}

impl<P: Platform> Clone for Taken<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Taken<P> {}

impl<P: Platform> State<P> {
    /// Writes bytes of a row in place, and remembers the words that were there.
    #[inline]
    pub(super) fn write(&mut self, c: P::Core, number: Found, offset: usize, bytes: &[u8]) {
        let row = self.rows[number as usize].row;
        let (first, end) = (offset / 8, (offset + bytes.len()).div_ceil(8));
        let span = &row.words()[first..end];
        let (at, count) = (self.words.len(), end - first);
        if count <= FEW_WORDS {
            let mut old = [0; FEW_WORDS];
            P::read_words(c, span, &mut old[..count]);
            old[..count].iter().for_each(|word| self.words.push(*word));
            place(&mut old[..count], offset, bytes);
            P::write_words(c, span, &old[..count]);
        } else {
            self.words.resize(at + count, 0);
            P::read_words(c, span, &mut self.words[at..]);
            self.words.extend_from_within(at..);
            place(&mut self.words[at + count..], offset, bytes);
            P::write_words(c, span, &self.words[at + count..]);
            self.words.truncate(at + count);
        }
        self.steps.push(Step::Write { row: number, first: first as u32, count: count as u32, at: at as u32 });
    }

    /// As [`crate::Scheme::stamp`]: rows have no stamps, but whoever wrote the row held its site. Tables that are never written
    /// were filled before the transaction began.
    pub(super) fn stamp(&self, number: Found) -> Stamp {
        let taken = &self.rows[number as usize];
        let site = taken.row.header().held_site();
        let place = self.held.iter().position(|held| *held == site).filter(|_| !taken.read_only);
        let filled = || self.epoch.last_stamp();
        Stamp(place.map_or_else(filled, |place| self.stamps[place]))
    }

    /// Remembers a step with the row's keys, one an index; the step's number.
    pub(super) fn remember(
        &mut self,
        row: Row<P>,
        table: usize,
        keys: &[&[u64]],
        step: impl FnOnce(u64, super::undo::Keys) -> Step,
    ) -> usize {
        let at = self.words.len() as u32;
        for word in keys.iter().copied().flatten() {
            self.words.push(*word);
        }
        self.steps.push(step(row.to_bits(), super::undo::Keys { table: table as u32, at }));
        self.steps.len() - 1
    }
}
