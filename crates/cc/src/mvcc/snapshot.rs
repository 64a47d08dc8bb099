//! Reading a snapshot: which version it shows, and the words of that version while other transactions write.
//!
//! Concurrency: a transaction that changes a row which a snapshot sees in place commits in a later epoch than the snapshot's,
//! and puts a copy in front of the chain before it changes the words. So a version that was in place when the reader looked
//! at the row is, when the reader has copied the words, either still in place or in the chain.

use std::sync::atomic::Ordering;

use platform::Platform;

use super::epochs::epoch_of;
use super::versions::{Row, Versioned, predecessor};
use crate::abort::Abort;
use crate::access::Access;
use crate::optimistic::{ABSENT, FLAGS, LOCKED};

/// The version of an epoch within a chain of copies.
fn in_chain<P: Platform>(c: P::Core, mut bits: u64, words: u32, epoch: u64) -> Option<Row<P>> {
    while bits != 0 {
        // SAFETY: named by a row or copy that was found in this epoch; what is cut off is retired, so it stays readable.
        let copy = unsafe { Row::<P>::from_bits(bits, words) };
        // Relaxed: a copy's version never changes.
        if epoch_of(P::load(c, copy.header().version(), Ordering::Relaxed)) <= epoch {
            return Some(copy);
        }
        bits = copy.header().older(c);
    }
    None
}

/// Where the version lies that a snapshot of `epoch` sees of what index number `index` names by `row`.
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
            Some((row, version))
        } else {
            let copy = in_chain(c, row.header().older(c), words, epoch);
            copy.map(|copy| (copy, P::load(c, copy.header().version(), Ordering::Relaxed)))
        };
        match found {
            Some((_, version)) if version & ABSENT != 0 => return None,
            Some((found, _)) => return Some(found),
            None => {
                let before = predecessor(c, row, index)?;
                // SAFETY: a row of the same table: it had the entry when the snapshot was taken, so it is not retired.
                row = unsafe { Row::<P>::from_bits(before, words) };
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
            // Acquire: the header is read after the words; pairs with the release fence in `commit`.
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
        match in_chain(c, header.older(c), row.words().len() as u32, epoch) {
            Some(copy) => access.row = copy,
            // The version that was in place in this epoch was copied before it was overwritten.
            None => return Err(Abort::Misuse("a version that a snapshot needs is gone")),
        }
    }
}

/// Whether the holder of a locked row has put a copy of this very version into the chain.
fn is_copied<P: Platform>(c: P::Core, row: Row<P>, version: u64, older: u64) -> bool {
    if version & LOCKED == 0 || older == 0 {
        return false;
    }
    // SAFETY: as in `in_chain`.
    let copy = unsafe { Row::<P>::from_bits(older, row.words().len() as u32) };
    // Relaxed: a copy's version never changes.
    P::load(c, copy.header().version(), Ordering::Relaxed) == version & !LOCKED
}
