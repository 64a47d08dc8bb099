//! Records of the log, as words.
//!
//! ```text
//! word 0     checksum (32 bits, high): of generation, place in the log, and all words of the record; words of the record (24); kind (8)
//! word 1     transaction; 0: none, what happens stays whatever becomes of transactions
//! word 2     tree (32 bits), pages (8), words of a key (8), flags (8: 1 the record compensates an earlier one)
//! a page     number (48 bits), words of its image (16); all pages, then all images
//! then       the change, by kind; then what undoes it
//! ```
//!
//! Padding is a word that says how many words it stands for; so does the mark at the end of a group that went to the disk, whose second word says
//! where the group began: everything below was on disk before the group was written. Records that end a transaction have two words, and one more for each other branch
//! of the same transaction that commits with it. What is said of transactions over
//! several databases has two words more, the transaction's number among these databases; then, that a part is prepared, the instance that
//! decides; a decision, which is the end of the own part, too, the number of instances that have to hear of it, and each of them. Keys have
//! the words that word 2 says. Other things of variable length have their lengths before them.

use engine::{Decision, GlobalId, PartOf};

use crate::lsn::Lsn;
use crate::page::RecordParts;

/// What happens to pages: the same when it happens, and when it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'r> {
    /// A leaf has this record under the key now, as a new entry or instead of another record.
    Put { key: &'r [u64], parts: RecordParts<'r>, ghost: bool },
    /// A record becomes a ghost, or is there again.
    Mark { key: &'r [u64], ghost: bool },
    /// Words of a record, from number `first` on.
    Write { key: &'r [u64], first: usize, words: &'r [u64] },
    /// An entry leaves.
    Remove { key: &'r [u64] },
    /// The first page keeps `stays` entries; the second one, which is new, is this; the third one gets an entry for the second.
    Split { separator: &'r [u64], stays: usize, right: &'r [u64] },
    /// The first page, a root, has two entries now: the two others, which are new.
    SplitRoot { separator: &'r [u64], left: &'r [u64], right: &'r [u64] },
    /// The first page loses this entry; with `child`, its first entry leads to this page. The second page is free.
    Unlink { entry: usize, child: Option<u64> },
}

/// What takes a change of a transaction back: another change of the same key.
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

/// A change, with all that is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedChange<'r> {
    pub transaction: u64,
    pub compensates: bool,
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
    /// All changes of the transaction count, and that is the decision that the one commits that it is a part of.
    Decided(u64, Decision),
    /// A decision is forgotten.
    Forgotten(GlobalId),
}

/// What is noted of a transaction over several databases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    Prepared(PartOf),
    Forgotten(GlobalId),
}

/// How a transaction ends.
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
const UNLINK: u64 = 9;
const PREPARED: u64 = 10;
const DECIDED: u64 = 11;
const FORGOTTEN: u64 = 12;
const GROUP: u64 = 13;
const COMMITTED_TOGETHER: u64 = 14;

const COMPENSATES: u64 = 1;
const WORDS_MAX: u64 = 0xff_ffff;

/// The word of padding for so many words.
pub(super) fn padding(words: u64) -> u64 {
    assert!(words <= WORDS_MAX, "too much padding");
    words << 8 | PADDING
}

/// The words of a mark for so many words, at the end of a group that begins here.
pub(super) fn group(words: u64, begins: Lsn) -> [u64; 2] {
    [padding(words) | GROUP, begins.0]
}

/// Whether this can be the first word of such a mark; most words are not.
pub(super) fn may_be_group(word: u64) -> bool {
    word & 0xff == GROUP
}

/// Completes a record that will lie here.
pub(super) fn seal(record: &mut [u64], place: (u64, Lsn)) {
    record[0] = record[0] & 0xffff_ffff | u64::from(checksum(record, place)) << 32;
}

fn checksum(record: &[u64], (generation, lsn): (u64, Lsn)) -> u32 {
    let sum = crc32c::crc32c(bytemuck::cast_slice(&[generation, lsn.0, record[0] & 0xffff_ffff]));
    crc32c::crc32c_append(sum, bytemuck::cast_slice(&record[1..]))
}

/// The words of the record that begins `words` and lies here, and how many words it stands for; `None` if none does.
pub(super) fn find(words: &[u64], place: (u64, Lsn)) -> Option<(&[u64], usize)> {
    let head = *words.first()?;
    let count = (head >> 8 & WORDS_MAX) as usize;
    if count == 0 || count > words.len() {
        return None;
    }
    let said = match head & 0xff {
        PADDING => 1,
        GROUP => 2,
        _ => count,
    };
    let record = words.get(..said)?;
    (u64::from(checksum(record, place)) == head >> 32).then_some((record, count))
}

/// Writes records.
pub(crate) struct Encoder<'v>(&'v mut Vec<u64>);

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

    /// What is noted of a transaction.
    pub(crate) fn note(mut self, transaction: u64, note: Note) {
        self.0.extend([0, transaction]);
        match note {
            Note::Prepared(PartOf { global, coordinator }) => {
                self.global(global);
                self.0.push(u64::from(coordinator));
                self.end(PREPARED);
            }
            Note::Forgotten(global) => {
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

    /// A change. Each image is written by `image`, which is told the number of the page in the list; none where it writes nothing.
    pub(crate) fn change(
        mut self,
        (transaction, compensates): (u64, bool),
        (tree, width): (u32, usize),
        (pages, mut image): (&[u64], impl FnMut(usize, &mut Vec<u64>)),
        (change, takeback): (Change<'_>, Takeback<'_>),
    ) {
        let flags = if compensates { COMPENSATES } else { 0 };
        let head = u64::from(tree) | (pages.len() as u64) << 32 | (width as u64) << 40 | flags << 48;
        self.0.extend([0, transaction, head]);
        let first = self.0.len();
        self.0.extend_from_slice(pages);
        for page in 0..pages.len() {
            let before = self.0.len();
            image(page, self.0);
            let words = (self.0.len() - before) as u64;
            self.0[first + page] |= words << 48;
        }
        let kind = self.body(change);
        self.takeback(takeback);
        self.end(kind);
    }

    fn body(&mut self, change: Change<'_>) -> u64 {
        match change {
            Change::Put { key, parts, ghost } => {
                self.0.extend_from_slice(key);
                self.record(parts, ghost);
                PUT
            }
            Change::Mark { key, ghost } => {
                self.0.extend_from_slice(key);
                self.0.push(u64::from(ghost));
                MARK
            }
            Change::Write { key, first, words } => {
                self.0.extend_from_slice(key);
                self.0.push(first as u64);
                self.counted(words);
                WRITE
            }
            Change::Remove { key } => {
                self.0.extend_from_slice(key);
                REMOVE
            }
            Change::Split { separator, stays, right } => {
                self.0.extend_from_slice(separator);
                self.0.push(stays as u64);
                self.counted(right);
                SPLIT
            }
            Change::SplitRoot { separator, left, right } => {
                self.0.extend_from_slice(separator);
                self.counted(left);
                self.counted(right);
                SPLIT_ROOT
            }
            Change::Unlink { entry, child } => {
                self.0.extend([entry as u64, child.unwrap_or(0)]);
                UNLINK
            }
        }
    }

    fn takeback(&mut self, takeback: Takeback<'_>) {
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

/// Takes words off the front of a record.
struct Decoder<'r>(&'r [u64]);

impl<'r> Decoder<'r> {
    fn words(&mut self, count: usize) -> Option<&'r [u64]> {
        let (words, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(words)
    }

    fn word(&mut self) -> Option<u64> {
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

    /// What is said of a transaction over several databases.
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

    fn change(&mut self, kind: u64, width: usize) -> Option<Change<'r>> {
        Some(match kind {
            PUT => {
                let key = self.words(width)?;
                let (parts, ghost) = self.record()?;
                Change::Put { key, parts, ghost }
            }
            MARK => Change::Mark { key: self.words(width)?, ghost: self.flag()? },
            WRITE => {
                let (key, first) = (self.words(width)?, self.word()? as usize);
                Change::Write { key, first, words: self.counted()? }
            }
            REMOVE => Change::Remove { key: self.words(width)? },
            SPLIT => {
                let (separator, stays) = (self.words(width)?, self.word()? as usize);
                Change::Split { separator, stays, right: self.counted()? }
            }
            SPLIT_ROOT => {
                let separator = self.words(width)?;
                Change::SplitRoot { separator, left: self.counted()?, right: self.counted()? }
            }
            UNLINK => {
                let (entry, child) = (self.word()? as usize, self.word()?);
                Change::Unlink { entry, child: (child != 0).then_some(child) }
            }
            _ => return None,
        })
    }

    fn takeback(&mut self) -> Option<Takeback<'r>> {
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

/// The words of a transaction's number among several databases.
pub(crate) fn words_of(global: GlobalId) -> [u64; 2] {
    [global.0 as u64, (global.0 >> 64) as u64]
}

/// The transaction with these two words.
pub(crate) fn global_of(words: &[u64]) -> Option<GlobalId> {
    let [low, high] = words else { return None };
    Some(GlobalId(u128::from(*high) << 64 | u128::from(*low)))
}

/// What takes one change back, as words that are in no record.
///
/// ```text
/// word 0     tree (32 bits), words of the key (8)
/// then       the key; the first word that was written; what undoes it, as in a record
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepWords<'r> {
    pub tree: u32,
    pub key: &'r [u64],
    pub first: usize,
    pub takeback: Takeback<'r>,
}

impl<'r> StepWords<'r> {
    /// Appends it.
    pub(crate) fn put(&self, to: &mut Vec<u64>) {
        let StepWords { tree, key, first, takeback } = *self;
        to.push(u64::from(tree) | (key.len() as u64) << 32);
        to.extend_from_slice(key);
        to.push(first as u64);
        Encoder(to).takeback(takeback);
    }

    /// Takes one off the front.
    pub(crate) fn take(words: &mut &'r [u64]) -> Option<Self> {
        let mut rest = Decoder(words);
        let head = rest.word()?;
        let key = rest.words((head >> 32 & 0xff) as usize)?;
        let first = rest.word()? as usize;
        let takeback = rest.takeback()?;
        *words = rest.0;
        Some(StepWords { tree: head as u32, key, first, takeback })
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
    let needed = match change {
        Change::Split { .. } | Change::SplitRoot { .. } => 3,
        Change::Unlink { .. } => 2,
        _ => 1,
    };
    let is_sound = rest.0.is_empty() && flags <= COMPENSATES && count == needed && width > 0;
    let compensates = flags & COMPENSATES != 0;
    let logged = LoggedChange { transaction, compensates, tree, width, pages, change, takeback };
    is_sound.then_some(Logged::Change(logged))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u64; 2] = [7, 8];

    fn changes() -> Vec<(Change<'static>, Takeback<'static>, usize)> {
        let parts = RecordParts { words: &[1, 2, 3], tail_bytes: 9 };
        let before = RecordParts { words: &[4, 5], tail_bytes: 0 };
        vec![
            (Change::Put { key: &KEY, parts, ghost: false }, Takeback::Mark { ghost: true }, 1),
            (Change::Put { key: &KEY, parts, ghost: true }, Takeback::Put { parts: before, ghost: false }, 1),
            (Change::Mark { key: &KEY, ghost: true }, Takeback::Mark { ghost: false }, 1),
            (Change::Write { key: &KEY, first: 3, words: &[9, 9] }, Takeback::Write { words: &[1, 2] }, 1),
            (Change::Remove { key: &KEY }, Takeback::None, 1),
            (Change::Split { separator: &KEY, stays: 4, right: &[1; 20] }, Takeback::None, 3),
            (Change::SplitRoot { separator: &KEY, left: &[1; 20], right: &[2; 9] }, Takeback::None, 3),
            (Change::Unlink { entry: 3, child: Some(77) }, Takeback::None, 2),
        ]
    }

    #[test]
    fn records_are_read_as_written() {
        for (change, takeback, count) in changes() {
            let numbers: Vec<u64> = (40..40 + count as u64).collect();
            let mut words = Vec::new();
            // Every second page has an image.
            let image = |page: usize, to: &mut Vec<u64>| to.extend(vec![page as u64 + 1; page % 2 * 5]);
            let encoder = Encoder::new(&mut words);
            encoder.change((99, true), (12, 2), (&numbers, image), (change, takeback));
            let place = (3, Lsn(4096));
            seal(&mut words, place);
            words.push(1234);
            let (found, count) = find(&words, place).expect("a record");
            assert_eq!(count + 1, words.len());
            let Some(Logged::Change(read)) = decode(found) else { panic!("{change:?}") };
            let images: Vec<usize> = read.pages.iter().map(|page| page.image.len()).collect();
            assert_eq!(images, (0..numbers.len()).map(|page| page % 2 * 5).collect::<Vec<_>>());
            assert_eq!((read.change, read.takeback), (change, takeback));
            assert_eq!((read.transaction, read.compensates, read.tree, read.width), (99, true, 12, 2));
            assert_eq!(read.pages.iter().map(|page| page.number).collect::<Vec<_>>(), numbers);
        }
    }

    #[test]
    fn nothing_else_is_taken_for_a_record() {
        let (change, takeback, _) = changes()[1];
        let mut words = Vec::new();
        Encoder::new(&mut words).change((5, false), (1, 2), (&[3], |_, _| ()), (change, takeback));
        let place = (2, Lsn(800));
        seal(&mut words, place);
        assert!(find(&words, place).is_some());
        assert!(find(&words, (3, Lsn(800))).is_none(), "of another generation");
        assert!(find(&words, (2, Lsn(808))).is_none(), "of another place");
        assert!(find(&words[..words.len() - 1], place).is_none(), "cut off");
        for bit in 0..words.len() * 64 {
            let mut flipped = words.clone();
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert!(find(&flipped, place).is_none(), "bit {bit}");
            // Whoever computes the right checksum of nonsense does no harm.
            let _ = decode(&flipped);
        }
    }

    #[test]
    fn what_is_said_of_several_databases_is_read_as_written() {
        let global = GlobalId(0x0123_4567_89ab_cdef_0000_0000_ffff_fff1);
        let part = PartOf { global, coordinator: 700 };
        let decision = Decision { global, participants: vec![0, 3, u16::MAX] };
        let read = |encode: &dyn Fn(Encoder<'_>)| {
            let mut words = Vec::new();
            encode(Encoder::new(&mut words));
            seal(&mut words, (1, Lsn(64)));
            let (found, _) = find(&words, (1, Lsn(64))).expect("a record");
            (2..found.len()).for_each(|count| assert_eq!(decode(&found[..count]), None, "{count}"));
            format!("{:?}", decode(found).expect("a record that is known"))
        };
        let said = |logged: Logged<'_>| format!("{logged:?}");
        assert_eq!(read(&|to| to.note(9, Note::Prepared(part))), said(Logged::Prepared(9, part)));
        assert_eq!(read(&|to| to.note(9, Note::Forgotten(global))), said(Logged::Forgotten(global)));
        let decided = said(Logged::Decided(9, decision.clone()));
        assert_eq!(read(&|to| to.ending(9, End::Decided(&decision))), decided);
    }

    #[test]
    fn branches_that_commit_together_are_read_as_written() {
        let mut words = Vec::new();
        Encoder::new(&mut words).ending(9, End::CommittedWith(&[11, 4]));
        seal(&mut words, (1, Lsn(64)));
        let (found, _) = find(&words, (1, Lsn(64))).expect("a record");
        assert_eq!(decode(found), Some(Logged::CommittedTogether(vec![9, 11, 4])));
    }

    #[test]
    fn padding_stands_for_words_that_are_not_there() {
        let mut words = vec![padding(3)];
        seal(&mut words, (1, Lsn(8)));
        words.extend([77, 78, 79]);
        let (record, count) = find(&words, (1, Lsn(8))).expect("padding");
        assert_eq!((decode(record), count), (Some(Logged::Padding), 3));
        let mut words = group(4, Lsn(4096)).to_vec();
        seal(&mut words, (1, Lsn(8)));
        words.extend([78, 79]);
        assert!(may_be_group(words[0]));
        let (record, count) = find(&words, (1, Lsn(8))).expect("the end of a group");
        assert_eq!((decode(record), count), (Some(Logged::Group(Lsn(4096))), 4));
    }
}
