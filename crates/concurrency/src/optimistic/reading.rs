//! Reading rows where they lie: a version is seen once, and has to be the same after the words were
//! copied.

use std::sync::atomic::Ordering;

use platform::Platform;
use storage::RecordRef;

use super::header::{ABSENT, LOCKED, UNSEEN, VersionHeader};
use crate::access::{Access, Accesses, COPIED};
use crate::scheme::RowNumber;
use terms::{Abort, Conflict};

/// The row's version once it is unlocked; conflict if that takes longer than `wait_nanos`.
#[inline(always)]
pub(crate) fn stable_version<P: Platform>(c: P::Core, word: &P::Word, wait_nanos: u64) -> Result<u64, Abort> {
    // Acquire: pairs with the release store that unlocks: the words are at least as new as the
    // version.
    let version = P::load(c, word, Ordering::Acquire);
    if version & LOCKED == 0 { Ok(version) } else { wait_unlocked::<P>(c, word, version, wait_nanos) }
}

#[cold]
pub(super) fn wait_unlocked<P: Platform>(
    c: P::Core,
    word: &P::Word,
    mut version: u64,
    wait_nanos: u64,
) -> Result<u64, Abort> {
    if wait_nanos == 0 {
        return Err(Abort::Conflict(Conflict::Locked));
    }
    let deadline = P::now(c).plus(wait_nanos);
    while version & LOCKED != 0 {
        let seen = P::spin_while(c, word, version, Some(deadline));
        if seen == version {
            return Err(Abort::Conflict(Conflict::Locked));
        }
        version = seen;
    }
    Ok(version)
}

/// Reads words of a row where it lies, and sees its version the first time. `version_bits`: those
/// of the version word that stay the same as long as the row is not written.
#[inline(always)]
pub(crate) fn read_in_place<P: Platform, H: VersionHeader<P>>(
    rows: &mut Accesses<P, H>,
    c: P::Core,
    number: RowNumber,
    first: usize,
    out: &mut [u64],
    version_bits: u64,
) -> Result<(), Abort> {
    let wait_nanos = rows.lock_wait_nanos;
    let access = rows.get(number)?;
    let row = access.row;
    if access.seen == UNSEEN {
        read_version(access, c, wait_nanos)?;
    }
    P::read_words(c, &row.words()[first..first + out.len()], out);
    // Acquire: the version is read after the words; pairs with the release fence in `commit`.
    P::fence(c, Ordering::Acquire);
    if P::load(c, row.header().word(), Ordering::Relaxed) != access.seen {
        read_again::<P, H>(access, c, first, out, version_bits, wait_nanos)?;
    }
    access.flags |= COPIED;
    Ok(())
}

/// Reads words of a row where it lies, of which nothing was read before; the version that they
/// belong to.
#[inline(always)]
pub(super) fn read_at_once<P: Platform, H: VersionHeader<P>>(
    c: P::Core,
    row: RecordRef<P, H>,
    first: usize,
    out: &mut [u64],
    wait_nanos: u64,
) -> Result<u64, Abort> {
    loop {
        let version = stable_version::<P>(c, row.header().word(), wait_nanos)?;
        if version & ABSENT != 0 {
            return Err(Abort::Conflict(Conflict::KeyInUse));
        }
        match out {
            // Most fields: their number is known where the copy is compiled.
            [word] => P::read_words(c, &row.words()[first..first + 1], std::slice::from_mut(word)),
            _ => P::read_words(c, &row.words()[first..first + out.len()], out),
        }
        // Acquire: as in `read_in_place`.
        P::fence(c, Ordering::Acquire);
        if P::load(c, row.header().word(), Ordering::Relaxed) == version {
            return Ok(version);
        }
    }
}

/// Sees the row's version.
#[inline(always)]
pub(super) fn read_version<P: Platform, H: VersionHeader<P>>(
    access: &mut Access<P, H>,
    c: P::Core,
    wait_nanos: u64,
) -> Result<(), Abort> {
    let version = stable_version::<P>(c, access.row.header().word(), wait_nanos)?;
    if version & ABSENT != 0 {
        return Err(Abort::Conflict(Conflict::KeyInUse));
    }
    access.seen = version;
    Ok(())
}

/// Reads words of a row that was changed while they were read.
#[cold]
fn read_again<P: Platform, H: VersionHeader<P>>(
    access: &mut Access<P, H>,
    c: P::Core,
    first: usize,
    out: &mut [u64],
    version_bits: u64,
    wait_nanos: u64,
) -> Result<(), Abort> {
    let row = access.row;
    let mut version = P::load(c, row.header().word(), Ordering::Relaxed);
    if (version ^ access.seen) & version_bits != 0 && access.flags & COPIED != 0 {
        return Err(Abort::Conflict(Conflict::ReadChanged));
    }
    while (version ^ access.seen) & version_bits != 0 {
        // Nothing was copied yet: the newer version is as good.
        read_version(access, c, wait_nanos)?;
        P::read_words(c, &row.words()[first..first + out.len()], out);
        // Acquire: as in `read`.
        P::fence(c, Ordering::Acquire);
        version = P::load(c, row.header().word(), Ordering::Relaxed);
    }
    access.seen = version;
    Ok(())
}
