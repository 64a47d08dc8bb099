//! Headers of rows with versions, and the chains behind them.
//!
//! A row is the latest version, in place. Older ones are copies of it, the newest first, with
//! headers of their own. A copy shares its tail with its neighbour in the chain if the tail was not
//! replaced between the two.
//!
//! A deletion changes no words. Where every snapshot that there is or will be sees the version that
//! was deleted, or what followed it, the row is its own copy: a mark in place of one
//! ([`IN_PLACE`]). So deletions need no memory for rows that were not written in the last epochs.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{Intent, OutOfMemory, Platform, SharedWord};
use storage::record::tail;
use storage::{Local, RecordHeader, RecordRef, Table};

use super::epochs::epoch_of;
use crate::access::{Accesses, INSERTED};
use crate::optimistic::{ABSENT, LOCKED, VersionHeader};
use crate::scheme::RowNumber;

/// In `older`: the words are those of the version before too, which was there for all snapshots
/// from before this one. Copies are aligned to more.
const IN_PLACE: u64 = 1;

/// The header of a row, or of a copy of an older version.
#[repr(C)]
pub struct Versioned<P: Platform> {
    /// The version word ([`crate::optimistic`]): the stamp of the writer.
    version: P::Word,
    /// The copy of the version before, or 0 if no snapshot needs it; and [`IN_PLACE`]. Set before
    /// the row's words change, so that a reader that has read changed words of a locked row can
    /// detect that.
    older: P::Word,
    /// A block that names the rows whose index entries this row has taken over, for snapshots from
    /// before its insertion; or
    /// 0. Those rows are reclaimed when there are no such snapshots any more, and no reader follows
    ///    the block then.
    inherited: P::Word,
}

pub(super) type Row<P> = RecordRef<P, Versioned<P>>;

impl<P: Platform> RecordHeader<P> for Versioned<P> {
    fn inserting() -> Self {
        Self::of_copy(LOCKED | ABSENT)
    }
}

impl<P: Platform> VersionHeader<P> for Versioned<P> {
    #[inline(always)]
    fn word(&self) -> &P::Word {
        &self.version
    }
}

impl<P: Platform> Versioned<P> {
    /// The header of a copy of this version.
    pub(super) fn of_copy(version: u64) -> Self {
        Versioned { version: P::Word::new(version), older: P::Word::new(0), inherited: P::Word::new(0) }
    }

    #[inline(always)]
    pub(super) fn version(&self) -> &P::Word {
        &self.version
    }

    /// The copy of the version before, or 0.
    #[inline]
    pub(super) fn older(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release in `prepend`, for the copy's words.
        P::load(c, &self.older, Ordering::Acquire) & !IN_PLACE
    }

    /// Returns true if this is the version of a deletion, behind which the words are still those of
    /// the version before.
    #[inline]
    pub(super) fn is_in_place(&self, c: P::Core) -> bool {
        // Acquire: read behind the version, which is stored with release behind the mark.
        P::load(c, &self.older, Ordering::Acquire) & IN_PLACE != 0
    }

    /// Marks a row that is locked to be deleted: no snapshot is older than the version that it has.
    pub(super) fn stay_in_place(&self, c: P::Core) {
        // Relaxed: only the holder of the lock changes it. Release: ordered before the version by
        // that one's store too.
        let older = P::load(c, &self.older, Ordering::Relaxed);
        P::store(c, &self.older, older | IN_PLACE, Ordering::Release);
    }

    /// Sets the block of the entries that the row takes over. The row is about to become visible.
    pub(super) fn set_inherited(&self, c: P::Core, inherited: u64) {
        // Release: for the block's words; pairs with the acquire in `predecessor`.
        P::store(c, &self.inherited, inherited, Ordering::Release);
    }

    /// The block of the entries that the row has taken over, or 0.
    pub(super) fn inherited(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release in `set_inherited`, for the block's words.
        P::load(c, &self.inherited, Ordering::Acquire)
    }
}

/// The row that had the entry of index number `index` before.
pub(super) fn predecessor<P: Platform>(c: P::Core, row: Row<P>, index: usize) -> Option<u64> {
    let words = inherited_words::<P>(c, row.header().inherited(c))?;
    let entries = words[1..].chunks_exact(2);
    let found = entries.map(|entry| (P::load(c, &entry[0], Ordering::Relaxed), &entry[1]));
    found
        .filter(|(position, _)| *position == index as u64)
        .map(|(_, bits)| P::load(c, bits, Ordering::Relaxed))
        .next()
}

/// The words of a block of inherited entries: how many there are, then the number of an index and a
/// row for each entry.
fn inherited_words<'a, P: Platform>(c: P::Core, bits: u64) -> Option<&'a [P::Word]> {
    let at = NonNull::new(std::ptr::with_exposed_provenance_mut::<P::Word>(bits as usize))?;
    P::touch(c, at.as_ptr(), size_of::<P::Word>(), Intent::Read);
    // SAFETY: made by `inherited_entries`, which wrote the count and that many words; not retired
    // before the caller's epoch ends.
    unsafe { Some(std::slice::from_raw_parts(at.as_ptr(), P::peek(at.as_ref()) as usize)) }
}

/// A block with those rows whose entries the inserted row `number` takes over, if snapshots may
/// have seen any.
pub(super) fn inherited_entries<P: Platform>(
    c: P::Core,
    local: &mut Local<P>,
    rows: &Accesses<P, Versioned<P>>,
    table: &Table<P>,
    number: RowNumber,
) -> Result<Option<u64>, OutOfMemory> {
    let mut words = vec![];
    for (position, before) in rows.takes_over_from(table, number) {
        let before = &rows.list[before as usize];
        if before.flags & INSERTED == 0 {
            words.extend([position as u64, before.row.to_bits()]);
        }
    }
    if words.is_empty() {
        return Ok(None);
    }
    words.insert(0, words.len() as u64 + 1);
    let at = local.allocate(c, words.len() * 8)?.cast::<P::Word>();
    P::touch(c, at.as_ptr(), words.len() * 8, Intent::Write);
    for (place, word) in words.iter().enumerate() {
        // SAFETY: the block has room for all words, and no other worker knows it.
        unsafe { at.add(place).write(P::Word::new(*word)) };
    }
    Ok(Some(at.as_ptr().expose_provenance() as u64))
}

/// Retires a block of inherited entries.
///
/// # Safety
/// No reader finds the block any more; once; inside an epoch.
pub(super) unsafe fn retire_inherited<P: Platform>(c: P::Core, local: &mut Local<P>, bits: u64) {
    let Some(words) = inherited_words::<P>(c, bits) else { return };
    if let Some(at) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(bits as usize)) {
        // SAFETY: allocated with this size; the rest is the caller's promise.
        unsafe { local.retire(c, at, size_of_val(words)) };
    }
}

/// The row's tail: its last word, if the table has tails.
pub(super) fn tail_of<P: Platform>(row: Row<P>) -> u64 {
    row.words().last().map_or(0, P::peek)
}

/// The tail of the newest older version, which shares it with the row unless it was replaced.
pub(super) fn older_tail<P: Platform>(c: P::Core, row: Row<P>) -> Option<u64> {
    let older = row.header().older(c);
    // SAFETY: a copy of the row: only the holder of the row's lock cuts it off, and that is the
    // caller.
    (older != 0).then(|| tail_of(unsafe { Row::<P>::from_bits(older, row.words().len() as u32) }))
}

/// Puts the copy of a row's version in front of its chain, and cuts the chain off behind the
/// version that a snapshot of epoch `oldest` needs.
///
/// # Safety
/// The caller has locked the row, made the copy for it, and is inside an epoch; no snapshot is
/// older.
pub(super) unsafe fn prepend<P: Platform>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
    row: Row<P>,
    copy: Row<P>,
    oldest: u64,
) {
    let header = row.header();
    // Relaxed: only the holder of the lock changes it. The copy has the row's words, so the mark
    // holds of the copy too.
    let chain = P::load(c, &header.older, Ordering::Relaxed);
    // Relaxed: no reader knows the copy yet.
    P::store(c, &copy.header().older, chain, Ordering::Relaxed);
    // Release: pairs with the acquire in `older`.
    P::store(c, &header.older, copy.to_bits(), Ordering::Release);
    if chain & !IN_PLACE == 0 {
        return;
    }
    let mut last = copy;
    loop {
        // Relaxed: a copy never changes, but for where it is cut.
        let version = P::load(c, &last.header().version, Ordering::Relaxed);
        let next = last.header().older(c);
        if next == 0 {
            return;
        }
        if epoch_of(version) <= oldest {
            // Relaxed: no snapshot reads behind it.
            P::store(c, &last.header().older, 0, Ordering::Relaxed);
            // SAFETY: cut off; snapshots end at `last` or before; passed on to the caller.
            unsafe { retire_chain(c, local, table, tail_of(last), next) };
            return;
        }
        // SAFETY: part of the chain, which only the holder of the row's lock cuts.
        last = unsafe { Row::<P>::from_bits(next, table.row_words) };
    }
}

/// Retires the copies from `bits` on; `newer_tail` is the tail of the version that was in front of
/// them.
///
/// # Safety
/// No reader finds the copies any more; once; inside an epoch.
pub(super) unsafe fn retire_chain<P: Platform>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
    mut newer_tail: u64,
    mut bits: u64,
) {
    while bits != 0 {
        // SAFETY: the caller's promise, for each of the copies and for tails that no newer version
        // has.
        unsafe {
            let copy = Row::<P>::from_bits(bits, table.row_words);
            bits = copy.header().older(c);
            if table.has_tail {
                let its = tail_of(copy);
                if its != newer_tail {
                    tail::retire(c, local, its);
                }
                newer_tail = its;
            }
            copy.retire(c, local);
        }
    }
}
