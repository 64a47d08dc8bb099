//! Reading a snapshot: which version it shows, and the words of that version while other
//! transactions write.
//!
//! Concurrency: a transaction that changes a row which a snapshot sees in place commits in a later
//! epoch than the snapshot's, and puts a copy in front of the chain before it changes the words. So
//! a version that was in place when the reader reached the row is, when the reader has copied the
//! words, either still in place or in the chain. A deletion changes no words: a row that is deleted
//! and marked is read in place.

use std::sync::atomic::Ordering;

use platform::Platform;

use super::epochs::epoch_of;
use super::versions::{Row, Versioned, predecessor};
use crate::access::Access;
use crate::optimistic::{ABSENT, FLAGS, LOCKED};
use terms::Abort;

/// The place of the version of an epoch that is older than that of a row or copy, and whether it
/// is that of a deletion.
fn before<P: Platform>(c: P::Core, mut row: Row<P>, epoch: u64) -> Option<(Row<P>, bool)> {
    let words = row.words().len() as u32;
    loop {
        if row.header().is_in_place(c) {
            return Some((row, false));
        }
        let bits = row.header().older(c);
        if bits == 0 {
            return None;
        }
        // SAFETY: named by a row or copy that was found in this epoch; what is cut off is retired,
        // so it stays readable.
        row = unsafe { Row::<P>::from_bits(bits, words) };
        // Relaxed: a copy's version never changes.
        let version = P::load(c, row.header().version(), Ordering::Relaxed);
        if epoch_of(version) <= epoch {
            return Some((row, version & ABSENT != 0));
        }
    }
}

/// The place of the version that a snapshot of `epoch` sees of the row that index number `index`
/// names by `row`.
pub(super) fn visible<P: Platform>(c: P::Core, mut row: Row<P>, index: usize, epoch: u64) -> Option<Row<P>> {
    let words = row.words().len() as u32;
    loop {
        // Acquire: pairs with the release of the writer: the chain is at least as new.
        let version = P::load(c, row.header().version(), Ordering::Acquire);
        if version == ABSENT {
            // The row was unlinked from the indexes, or never was in them: no snapshot shows it.
            return None;
        }
        let found = if version & !FLAGS != 0 && epoch_of(version) <= epoch {
            Some((row, version & ABSENT != 0))
        } else {
            before(c, row, epoch)
        };
        match found {
            Some((_, true)) => return None,
            Some((found, false)) => return Some(found),
            None => {
                let previous = predecessor(c, row, index)?;
                // SAFETY: a row of the same table: it had the entry when the snapshot was taken, so
                // it is not retired.
                row = unsafe { Row::<P>::from_bits(previous, words) };
            }
        }
    }
}

/// Copies words of the version that a snapshot of `epoch` sees.
#[inline]
pub(super) fn read<P: Platform>(
    access: &mut Access<P, Versioned<P>>,
    c: P::Core,
    epoch: u64,
    first: usize,
    out: &mut [u64],
) -> Result<(), Abort> {
    loop {
        let (row, header) = (access.row, access.row.header());
        // Acquire: pairs with the release of the writer.
        let version = P::load(c, header.version(), Ordering::Acquire);
        let older = header.older(c);
        if epoch_of(version) <= epoch && !is_copied(c, row, version, older) {
            P::read_words(c, &row.words()[first..first + out.len()], out);
            // Acquire: the header is read after the words; pairs with the release fence in
            // `commit`.
            P::fence(c, Ordering::Acquire);
            let whole = if version & LOCKED == 0 {
                P::load(c, header.version(), Ordering::Relaxed) == version
            } else {
                header.older(c) == older
            };
            if whole {
                access.seen = version & !FLAGS;
                return Ok(());
            }
            continue;
        }
        match before(c, row, epoch) {
            // Deleted: its words change no more.
            Some((place, _)) if place.to_bits() == row.to_bits() => {
                P::read_words(c, &row.words()[first..first + out.len()], out);
                return Ok(());
            }
            Some((copy, _)) => access.row = copy,
            // The version that was in place in this epoch was copied before it was overwritten.
            None => return Err(Abort::Misuse("a version that a snapshot needs is gone")),
        }
    }
}

/// Returns true if the holder of a locked row has put a copy of this very version into the chain.
fn is_copied<P: Platform>(c: P::Core, row: Row<P>, version: u64, older: u64) -> bool {
    if version & LOCKED == 0 || older == 0 {
        return false;
    }
    // SAFETY: as in `in_chain`.
    let copy = unsafe { Row::<P>::from_bits(older, row.words().len() as u32) };
    // Relaxed: a copy's version never changes.
    P::load(c, copy.header().version(), Ordering::Relaxed) == version & !LOCKED
}
