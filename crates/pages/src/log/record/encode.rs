//! Encoding of records.

use boundary::{Decision, GlobalId, PartOf};

use super::{
    COMMITTED, COMMITTED_TOGETHER, COMPENSATES, Change, ChangeHead, Compensation, DECIDED, End, FORGOTTEN,
    GOES_ON, MARK, MERGE, MERGE_ROOT, PREPARED, PUT, ParticipantNote, REMOVE, ROLLED_BACK, SPLIT, SPLIT_ROOT,
    Takeback, WORDS_MAX, WRITE, width_mark, words_of,
};
use crate::key::is_long;
use crate::page::RecordParts;

/// Writes records.
pub(crate) struct Encoder<'v>(pub(super) &'v mut Vec<u64>);

impl<'v> Encoder<'v> {
    /// A record in this buffer.
    pub(crate) fn new(to: &'v mut Vec<u64>) -> Self {
        to.clear();
        Encoder(to)
    }

    fn end(self, kind: u64) {
        let words = self.0.len() as u64;
        assert!(words <= WORDS_MAX, "a record is too long");
        self.0[0] = words << 8 | kind;
    }

    /// The end of a transaction.
    pub(crate) fn ending(mut self, transaction: u64, end: End<'_>) {
        self.0.extend([0, transaction]);
        match end {
            End::RolledBack => self.end(ROLLED_BACK),
            End::Committed => self.end(COMMITTED),
            End::CommittedWith(others) => {
                self.0.extend_from_slice(others);
                self.end(COMMITTED_TOGETHER);
            }
            End::Decided(Decision { global, participants }) => {
                self.global(*global);
                self.0.push(participants.len() as u64);
                self.0.extend(participants.iter().map(|instance| u64::from(*instance)));
                self.end(DECIDED);
            }
        }
    }

    /// Encodes a note about a transaction.
    pub(crate) fn note(mut self, transaction: u64, note: ParticipantNote) {
        self.0.extend([0, transaction]);
        match note {
            ParticipantNote::Prepared(PartOf { global, coordinator }) => {
                self.global(global);
                self.0.push(u64::from(coordinator));
                self.end(PREPARED);
            }
            ParticipantNote::Forgotten(global) => {
                self.global(global);
                self.end(FORGOTTEN);
            }
        }
    }

    fn global(&mut self, global: GlobalId) {
        self.0.extend(words_of(global));
    }

    fn counted(&mut self, words: &[u64]) {
        self.0.push(words.len() as u64);
        self.0.extend_from_slice(words);
    }

    fn record(&mut self, parts: RecordParts<'_>, ghost: bool) {
        let tail = parts.tail_bytes as u64;
        self.0.push(parts.words.len() as u64 | tail << 16 | u64::from(ghost) << 48);
        self.0.extend_from_slice(parts.words);
    }

    /// Encodes a change. Each image is written by `image`, which receives the number of the page in
    /// the list; none if it writes nothing.
    pub(crate) fn change(
        mut self,
        head: ChangeHead,
        pages: &[u64],
        mut image: impl FnMut(usize, &mut Vec<u64>),
        change: Change<'_>,
        takeback: Takeback<'_>,
    ) {
        let ChangeHead { transaction, compensates, tree, width } = head;
        let flags = match compensates {
            None => 0,
            Some(Compensation::OfAll) => COMPENSATES,
            Some(Compensation::OfPart) => COMPENSATES | GOES_ON,
        };
        let mark = width_mark(width);
        let head = u64::from(tree) | (pages.len() as u64) << 32 | mark << 40 | flags << 48;
        self.0.extend([0, transaction, head]);
        let first = self.0.len();
        self.0.extend_from_slice(pages);
        for page in 0..pages.len() {
            let before = self.0.len();
            image(page, self.0);
            let words = (self.0.len() - before) as u64;
            self.0[first + page] |= words << 48;
        }
        let kind = self.body(change, is_long(width));
        self.takeback(takeback);
        self.end(kind);
    }

    /// A key: long ones say how many words they have.
    fn key(&mut self, key: &[u64], is_long: bool) {
        if is_long {
            self.0.push(key.len() as u64);
        }
        self.0.extend_from_slice(key);
    }

    fn body(&mut self, change: Change<'_>, is_long: bool) -> u64 {
        match change {
            Change::Put { key, parts, ghost } => {
                self.key(key, is_long);
                self.record(parts, ghost);
                PUT
            }
            Change::Mark { key, ghost } => {
                self.key(key, is_long);
                self.0.push(u64::from(ghost));
                MARK
            }
            Change::Write { key, first, words } => {
                self.key(key, is_long);
                self.0.push(first as u64);
                self.counted(words);
                WRITE
            }
            Change::Remove { key } => {
                self.key(key, is_long);
                REMOVE
            }
            Change::Split { separator, stays, right } => {
                self.key(separator, is_long);
                self.0.push(stays as u64);
                self.counted(right);
                SPLIT
            }
            Change::SplitRoot { separator, left, right } => {
                self.key(separator, is_long);
                self.counted(left);
                self.counted(right);
                SPLIT_ROOT
            }
            Change::Merge { entry, right } => {
                self.0.push(entry as u64);
                self.counted(right);
                MERGE
            }
            Change::MergeRoot { child } => {
                self.counted(child);
                MERGE_ROOT
            }
        }
    }

    pub(super) fn takeback(&mut self, takeback: Takeback<'_>) {
        match takeback {
            Takeback::None => self.0.push(0),
            Takeback::Mark { ghost } => self.0.extend([1, u64::from(ghost)]),
            Takeback::Put { parts, ghost } => {
                self.0.push(2);
                self.record(parts, ghost);
            }
            Takeback::Write { words } => {
                self.0.push(3);
                self.counted(words);
            }
        }
    }
}
