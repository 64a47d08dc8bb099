//! Pages as bytes of their file: sealed when they are written, verified when they come.

use super::{CHECKSUM, FORMAT, LSN, NUMBER};
use crate::lsn::Lsn;

/// Completes a page that is about to be written to its file, as bytes.
pub(crate) fn seal(bytes: &mut [u8], identity: u64) {
    let sum = checksum(bytes, identity);
    bytes[..8].copy_from_slice(&(u64::from(sum) | FORMAT << 32).to_le_bytes());
}

/// The checksum of a page: no other database has it.
fn checksum(bytes: &[u8], identity: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&identity.to_le_bytes()), &bytes[8..])
}

/// The reason why bytes read from a file are not the requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFault {
    /// The checksum is that of other bytes.
    #[error("its checksum is wrong")]
    Checksum,
    /// It is whole, and older than what was written last.
    #[error("an older version of it lies in its place: a write was lost")]
    Older,
    /// It is whole, and newer than what the log had when that was found at an opening.
    #[error("it has changes that the log has lost")]
    Ahead,
    /// It is whole, and another page.
    #[error("page {0} lies in its place")]
    OtherPage(u64),
    /// The file ends before it, or within it.
    #[error("the file ends before it")]
    Short,
    /// Another version has written it.
    #[error("its format is {0}, which this version does not know")]
    Format(u64),
}

/// Checks that bytes read from a file are the page with this number of this database, no older than
/// `oldest`. Returns the end of the record of its last change.
pub(crate) fn verify(
    bytes: &[u8],
    page_bytes: usize,
    identity: u64,
    number: u64,
    oldest: Lsn,
) -> Result<Lsn, PageFault> {
    if bytes.len() < page_bytes {
        return Err(PageFault::Short);
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap_or_default());
    if word(CHECKSUM) & 0xffff_ffff != u64::from(checksum(&bytes[..page_bytes], identity)) {
        return Err(PageFault::Checksum);
    }
    match (word(CHECKSUM) >> 32, word(NUMBER)) {
        (FORMAT, found) if found == number && word(LSN) < oldest.0 => Err(PageFault::Older),
        (FORMAT, found) if found == number => Ok(Lsn(word(LSN))),
        (FORMAT, other) => Err(PageFault::OtherPage(other)),
        (format, _) => Err(PageFault::Format(format)),
    }
}
