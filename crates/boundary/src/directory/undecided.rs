//! Two descriptions of a directory's tables, of which a transaction decides.
//!
//! A transaction that changes tables and rows commits with a record of the log
//! ([`GlobalId`] of a decision). Before that the directory gets both descriptions: the tables
//! before the transaction, and after it. An opening takes the later one if the log has the
//! decision. When the transaction has committed, the directory gets the later description alone.
//!
//! ```text
//! undecided: number (64, in place of the version of a description), global id 16,
//!            length and bytes of the description before, length and bytes of the description after
//! ```

use super::wire::{Bytes, NUMBER_BYTES, read_bytes, read_exactly, read_number};
use crate::participants::GlobalId;

/// In place of the version of a description.
const UNDECIDED: u64 = 64;

/// Two descriptions, and the transaction that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided<'b> {
    /// The transaction.
    pub transaction: GlobalId,
    /// The description before the transaction.
    pub before: &'b [u8],
    /// The description if the transaction has committed.
    pub after: &'b [u8],
}

impl<'b> Undecided<'b> {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Bytes::default();
        to.room(NUMBER_BYTES + 16);
        to.put_number(UNDECIDED);
        to.put(&self.transaction.0.to_le_bytes());
        to.append_counted(self.before);
        to.append_counted(self.after);
        to.into_vec()
    }

    /// Reads what [`Self::encode`] wrote; `None` if the bytes are of one description.
    pub fn decode(mut bytes: &'b [u8]) -> Option<Self> {
        if read_number(&mut bytes)? != UNDECIDED {
            return None;
        }
        let transaction = u128::from_le_bytes(read_exactly(&mut bytes, 16)?.try_into().ok()?);
        let (before, after) = (read_bytes(&mut bytes)?, read_bytes(&mut bytes)?);
        let undecided = Undecided { transaction: GlobalId(transaction), before, after };
        bytes.is_empty().then_some(undecided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_descriptions_are_read_as_written_and_no_shorter() {
        let undecided = Undecided { transaction: GlobalId(7 << 64 | 5), before: &[1, 2], after: &[] };
        let bytes = undecided.encode();
        assert_eq!(Undecided::decode(&bytes), Some(undecided));
        for length in 0..bytes.len() {
            assert_eq!(Undecided::decode(&bytes[..length]), None);
        }
        assert_eq!(Undecided::decode(&[4, 0, 0]), None, "a description");
    }
}
