//! Records of the log, as words.
//!
//! ```text
//! word 0     checksum (32 bits, high): of the generation's name, place in the log, and all words of the record; words of the record (24); kind (8)
//! word 1     transaction; 0: none, what happens stays whatever becomes of transactions
//! word 2     tree (32 bits), pages (8), words of a key (8), flags (8)
//!            flag 1: the record compensates an earlier one; flag 2: and the transaction goes on
//! a page     number (48 bits), words of its image (16); all pages, then all images
//! then       the change, by kind; then what undoes it
//! ```
//!
//! Padding is a word with the number of words that it fills; so does the mark at the end of a group
//! that was written to the disk, and of each part of it that fills a segment. Its second word has
//! the beginning of the group: everything below was on disk before the group was written, and all
//! up to the mark before anything behind it. Records that end a transaction have two words, and one
//! more for each other branch of the same transaction that commits with it. Records about
//! transactions over several databases have two words more, the transaction's number among these
//! databases; then, for a prepared part, the instance that decides; for a decision, which also ends
//! the coordinator's own part, the number of instances that have to receive it, and each of them.
//! Keys have the words that word 2 says, or, if it says 255, their lengths before them, as other
//! things of variable length have.

mod decode;
mod encode;
mod steps;
#[cfg(test)]
mod tests;

pub(crate) use decode::decode;
pub(crate) use encode::Encoder;
pub(crate) use steps::StepWords;

use boundary::{Decision, GlobalId, PartOf};

use crate::key::is_long;
use crate::lsn::Lsn;
use crate::page::{Change, RecordParts};

/// The undo of a transaction's change: another change of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takeback<'r> {
    /// Nothing does: it stays.
    None,
    /// The record becomes a ghost, or is there again.
    Mark { ghost: bool },
    /// The record that was there.
    Put { parts: RecordParts<'r>, ghost: bool },
    /// The words that were there, as many as were written.
    Write { words: &'r [u64] },
}

/// A page that a change is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedPage<'r> {
    pub number: u64,
    /// The page before the change; empty: without.
    pub image: &'r [u64],
}

/// Why a change takes back an earlier one of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compensation {
    /// The transaction is undone.
    OfAll,
    /// The transaction has rolled back to a savepoint, and goes on.
    OfPart,
}

/// The head of the record of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeHead {
    /// 0: none.
    pub transaction: u64,
    /// If the change takes back an earlier one, why.
    pub compensates: Option<Compensation>,
    pub tree: u32,
    /// Words of a key of the tree.
    pub width: usize,
}

/// The words of a key of a tree, as a record has them: the width of all trees with long keys is the
/// same there.
pub(crate) fn width_mark(width: usize) -> u64 {
    if is_long(width) { 0xff } else { width as u64 }
}

/// A change with all fields of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedChange<'r> {
    pub transaction: u64,
    pub compensates: Option<Compensation>,
    pub tree: u32,
    pub width: usize,
    pub pages: Vec<ChangedPage<'r>>,
    pub change: Change<'r>,
    pub takeback: Takeback<'r>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Logged<'r> {
    Padding,
    /// The end of a group, and where it began.
    Group(Lsn),
    Change(LoggedChange<'r>),
    /// All changes of the transaction count.
    Committed(u64),
    /// All changes of these transactions count, which are branches of one.
    CommittedTogether(Vec<u64>),
    /// All changes of the transaction have been taken back.
    RolledBack(u64),
    /// The transaction is prepared as a part of one over several databases.
    Prepared(u64, PartOf),
    /// All changes of the transaction count, and that is the decision that the one commits that it
    /// is a part of.
    Decided(u64, Decision),
    /// A decision is forgotten.
    Forgotten(GlobalId),
}

/// A note about a transaction over several databases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParticipantNote {
    Prepared(PartOf),
    Forgotten(GlobalId),
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'d> {
    RolledBack,
    Committed,
    /// With these other branches of the same transaction.
    CommittedWith(&'d [u64]),
    Decided(&'d Decision),
}

const PADDING: u64 = 0;
const COMMITTED: u64 = 1;
const ROLLED_BACK: u64 = 2;
const PUT: u64 = 3;
const MARK: u64 = 4;
const WRITE: u64 = 5;
const REMOVE: u64 = 6;
const SPLIT: u64 = 7;
const SPLIT_ROOT: u64 = 8;
const PREPARED: u64 = 10;
const DECIDED: u64 = 11;
const FORGOTTEN: u64 = 12;
const GROUP: u64 = 13;
const COMMITTED_TOGETHER: u64 = 14;
const MERGE: u64 = 15;
const MERGE_ROOT: u64 = 16;

/// Bytes of the mark at the end of a group.
pub(super) const MARK_BYTES: u64 = 16;

const COMPENSATES: u64 = 1;
const GOES_ON: u64 = 2;
const WORDS_MAX: u64 = 0xff_ffff;

/// The word of padding for `words` words.
pub(super) fn padding(words: u64) -> u64 {
    assert!(words <= WORDS_MAX, "too much padding");
    words << 8 | PADDING
}

/// The words of a mark for this many words, at the end of a group that begins here.
pub(super) fn group(words: u64, begins: Lsn) -> [u64; 2] {
    [padding(words) | GROUP, begins.0]
}

/// Returns true if this can be the first word of such a mark; most words are not.
pub(super) fn may_be_group(word: u64) -> bool {
    word & 0xff == GROUP
}

/// The place of a record in the log: its checksum covers both, so that no record is read at another
/// place, or as that of another life.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPlace {
    /// The name of the life that writes the record.
    pub life: u64,
    /// The beginning of the record.
    pub lsn: Lsn,
}

/// A record that was found in words of the log.
#[derive(Debug)]
pub(super) struct FoundRecord<'w> {
    /// The words of the record.
    pub words: &'w [u64],
    /// The number of words to the next record: more than the record has, if it stands for padding.
    pub count: usize,
}

/// Completes a record that will lie here.
pub(super) fn seal(record: &mut [u64], place: RecordPlace) {
    record[0] = record[0] & 0xffff_ffff | u64::from(checksum(record, place)) << 32;
}

fn checksum(record: &[u64], place: RecordPlace) -> u32 {
    let RecordPlace { life, lsn } = place;
    let sum = crc32c::crc32c(bytemuck::cast_slice(&[life, lsn.0, record[0] & 0xffff_ffff]));
    crc32c::crc32c_append(sum, bytemuck::cast_slice(&record[1..]))
}

/// The record that begins `words` and lies here, and stands for `rest` words at most; `None` if
/// there is none.
pub(super) fn find(words: &[u64], rest: usize, place: RecordPlace) -> Option<FoundRecord<'_>> {
    let head = *words.first()?;
    let count = (head >> 8 & WORDS_MAX) as usize;
    if count == 0 || count > rest {
        return None;
    }
    let present = match head & 0xff {
        PADDING => 1,
        GROUP => 2,
        _ => count,
    };
    let words = words.get(..present)?;
    (u64::from(checksum(words, place)) == head >> 32).then_some(FoundRecord { words, count })
}

/// The words of a transaction's number among several databases.
pub(crate) fn words_of(global: GlobalId) -> [u64; 2] {
    [global.0 as u64, (global.0 >> 64) as u64]
}

/// The transaction with these two words.
pub(crate) fn global_of(words: &[u64]) -> Option<GlobalId> {
    let [low, high] = words else { return None };
    Some(GlobalId(u128::from(*high) << 64 | u128::from(*low)))
}
