//! Decoding of records.

use boundary::{Decision, GlobalId, PartOf};

use super::{
    COMMITTED, COMMITTED_TOGETHER, COMPENSATES, Change, ChangedPage, Compensation, DECIDED, FORGOTTEN,
    GOES_ON, GROUP, Logged, LoggedChange, MARK, MERGE, MERGE_ROOT, PADDING, PREPARED, PUT, REMOVE,
    ROLLED_BACK, SPLIT, SPLIT_ROOT, Takeback, WRITE, global_of,
};
use crate::key::is_long;
use crate::lsn::Lsn;
use crate::page::RecordParts;

/// Takes words off the front of a record.
pub(super) struct Decoder<'r>(pub(super) &'r [u64]);

impl<'r> Decoder<'r> {
    pub(super) fn words(&mut self, count: usize) -> Option<&'r [u64]> {
        let (words, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(words)
    }

    pub(super) fn word(&mut self) -> Option<u64> {
        self.words(1).map(|words| words[0])
    }

    fn counted(&mut self) -> Option<&'r [u64]> {
        let count = self.word()?;
        self.words(usize::try_from(count).ok()?)
    }

    fn flag(&mut self) -> Option<bool> {
        self.word().filter(|word| *word < 2).map(|word| word == 1)
    }

    fn record(&mut self) -> Option<(RecordParts<'r>, bool)> {
        let head = self.word()?;
        let words = self.words((head & 0xffff) as usize)?;
        let tail_bytes = (head >> 16 & 0xffff_ffff) as usize;
        let ghost = head >> 48;
        // The tail of a long row lies elsewhere.
        (ghost < 2).then_some((RecordParts { words, tail_bytes }, ghost == 1))
    }

    fn global(&mut self) -> Option<GlobalId> {
        self.words(2).and_then(global_of)
    }

    fn instance(&mut self) -> Option<u16> {
        self.word().and_then(|word| u16::try_from(word).ok())
    }

    /// The fields of a record about a transaction over several databases.
    fn of_several(&mut self, kind: u64, transaction: u64) -> Option<Logged<'r>> {
        let global = self.global()?;
        Some(match kind {
            PREPARED => Logged::Prepared(transaction, PartOf { global, coordinator: self.instance()? }),
            DECIDED => {
                let count = self.word()?;
                let participants = (0..count).map(|_| self.instance()).collect::<Option<_>>()?;
                Logged::Decided(transaction, Decision { global, participants })
            }
            FORGOTTEN => Logged::Forgotten(global),
            _ => return None,
        })
    }

    /// A key of an index with keys of this many words: long ones say how many they have.
    fn key(&mut self, width: usize) -> Option<&'r [u64]> {
        if is_long(width) { self.counted() } else { self.words(width) }
    }

    fn change(&mut self, kind: u64, width: usize) -> Option<Change<'r>> {
        Some(match kind {
            PUT => {
                let key = self.key(width)?;
                let (parts, ghost) = self.record()?;
                Change::Put { key, parts, ghost }
            }
            MARK => Change::Mark { key: self.key(width)?, ghost: self.flag()? },
            WRITE => {
                let (key, first) = (self.key(width)?, self.word()? as usize);
                Change::Write { key, first, words: self.counted()? }
            }
            REMOVE => Change::Remove { key: self.key(width)? },
            SPLIT => {
                let (separator, stays) = (self.key(width)?, self.word()? as usize);
                Change::Split { separator, stays, right: self.counted()? }
            }
            SPLIT_ROOT => {
                let separator = self.key(width)?;
                Change::SplitRoot { separator, left: self.counted()?, right: self.counted()? }
            }
            MERGE => {
                let entry = self.word()? as usize;
                Change::Merge { entry, right: self.counted()? }
            }
            MERGE_ROOT => Change::MergeRoot { child: self.counted()? },
            _ => return None,
        })
    }

    pub(super) fn takeback(&mut self) -> Option<Takeback<'r>> {
        Some(match self.word()? {
            0 => Takeback::None,
            1 => Takeback::Mark { ghost: self.flag()? },
            2 => {
                let (parts, ghost) = self.record()?;
                Takeback::Put { parts, ghost }
            }
            3 => Takeback::Write { words: self.counted()? },
            _ => return None,
        })
    }
}

/// Reads a record that [`find`] has found; `None` if this version does not write such.
pub(crate) fn decode(record: &[u64]) -> Option<Logged<'_>> {
    let (kind, mut rest) = (record.first()? & 0xff, Decoder(&record[1..]));
    if kind == PADDING {
        return Some(Logged::Padding);
    }
    let transaction = rest.word()?;
    match kind {
        GROUP => return Some(Logged::Group(Lsn(transaction))),
        COMMITTED => return Some(Logged::Committed(transaction)),
        ROLLED_BACK => return Some(Logged::RolledBack(transaction)),
        COMMITTED_TOGETHER => {
            let all = std::iter::once(transaction).chain(rest.0.iter().copied()).collect();
            return Some(Logged::CommittedTogether(all));
        }
        PREPARED | DECIDED | FORGOTTEN => {
            return rest.of_several(kind, transaction).filter(|_| rest.0.is_empty());
        }
        _ => {}
    }
    let head = rest.word()?;
    let (tree, count) = (head as u32, (head >> 32 & 0xff) as usize);
    let (width, flags) = ((head >> 40 & 0xff) as usize, head >> 48);
    let heads = rest.words(count)?;
    let mut pages = Vec::with_capacity(count);
    for head in heads {
        let image = rest.words((head >> 48) as usize)?;
        pages.push(ChangedPage { number: head & 0xffff_ffff_ffff, image });
    }
    let change = rest.change(kind, width)?;
    let takeback = rest.takeback()?;
    // Pages count from 1.
    let is_sound =
        rest.0.is_empty() && width > 0 && count == change.pages() && pages.iter().all(|page| page.number > 0);
    let compensates = match flags {
        0 => None,
        COMPENSATES => Some(Compensation::OfAll),
        flags if flags == COMPENSATES | GOES_ON => Some(Compensation::OfPart),
        _ => return None,
    };
    let logged = LoggedChange { transaction, compensates, tree, width, pages, change, takeback };
    is_sound.then_some(Logged::Change(logged))
}
