//! The head of the file of pages: the block in the place of page 0, which does not exist. It has
//! the identity of the file's database.
//!
//! ```text
//! word 0..3     magic; version of the format; identity of the database; checksum (CRC-32C) of all before
//! ```
//!
//! The checksum of each page has the identity as well, so no page of another database is ever
//! served; but a file that is another's has to be known before a restart writes to it. The head is
//! written once, and is on disk with the first checkpoint.

use platform::files::{Access, BLOCK_BYTES, Buffer, Existence, FileError, Files, Operation};
use redo_log::LogError;

use crate::error::PagedError;

/// Name of the file.
pub(crate) const NAME: &str = "pages.data";
const MAGIC: u64 = u64::from_le_bytes(*b"islesDAT");
const FORMAT: u64 = 1;
const WORDS: usize = 4;

fn encode(identity: u64) -> [u8; BLOCK_BYTES] {
    let mut words = [MAGIC, FORMAT, identity, 0];
    words[WORDS - 1] = u64::from(crc32c::crc32c(bytemuck::cast_slice(&words[..WORDS - 1])));
    let mut block = [0; BLOCK_BYTES];
    block[..WORDS * 8].copy_from_slice(bytemuck::cast_slice(&words));
    block
}

/// The identity that a head says; `None` if it is none.
fn decode(block: &[u8]) -> Option<u64> {
    let words: [u64; WORDS] = bytemuck::pod_read_unaligned(block.get(..WORDS * 8)?);
    let [MAGIC, FORMAT, identity, sum] = words else { return None };
    (sum == u64::from(crc32c::crc32c(&block[..(WORDS - 1) * 8]))).then_some(identity)
}

/// Writes the head of a file.
///
/// # Errors
/// The file refuses.
pub(crate) fn write<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    file: P::File,
    identity: u64,
) -> Result<(), PagedError> {
    let mut buffer = Buffer::new(c, None, BLOCK_BYTES, "head of pages")?;
    buffer.append(c, &encode(identity));
    let write = Operation::Write { file, offset: 0, buffers: vec![buffer] };
    Ok(P::perform(c, queue, write).result.map(drop)?)
}

/// Returns true if the head of a directory's file of pages is whole.
///
/// # Errors
/// It is that of another database, or cannot be read.
pub(crate) fn is_whole<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    identity: u64,
) -> Result<bool, PagedError> {
    let (name, existence) = (NAME.to_owned(), Existence::Old);
    let open = Operation::Open { name, existence, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let buffer = Buffer::new(c, None, BLOCK_BYTES, "head of pages")?;
    let mut completion = P::perform(c, queue, Operation::Read { file, offset: 0, buffer });
    let bytes = completion.bytes()? as usize;
    let mut buffer = completion.buffers.pop().ok_or_else(FileError::stopped)?;
    buffer.set_len(bytes.min(buffer.capacity()));
    match decode(buffer.bytes()) {
        Some(found) if found != identity => Err(damaged("the file belongs to another database")),
        found => Ok(found.is_some()),
    }
}

/// Checks that a directory's file of pages is that of this database.
///
/// # Errors
/// It is not, or its head is damaged, or cannot be read.
pub(crate) fn check<P: Files>(c: P::Core, queue: &mut P::Queue, identity: u64) -> Result<(), PagedError> {
    let what = "its head is damaged: restore a backup, or have the file repaired from one";
    if is_whole::<P>(c, queue, identity)? { Ok(()) } else { Err(damaged(what)) }
}

fn damaged(what: &'static str) -> PagedError {
    LogError::Damaged { file: NAME.to_owned(), offset: 0, what }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_written_and_nothing_else() {
        let block = encode(0xfeed);
        assert_eq!(decode(&block), Some(0xfeed));
        for bit in 0..WORDS * 64 {
            let mut flipped = block;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(decode(&block[..WORDS * 8 - 1]), None);
    }
}
