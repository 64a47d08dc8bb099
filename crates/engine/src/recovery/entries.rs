//! Changes of rows as they are sorted: 32 bytes each, in shares of the keys.
//!
//! Keys are divided into ranges, so that a share has its rows in key order, and about as many
//! changes as any other share. A [`Division`] has to put the changes of one row into one share, and
//! next to each other there. So a whole key is not needed: where keys have more than one word, a
//! word that distinguishes most keys stands for the key, together with a hash.

use redo_log::{LogBlock, Records};

use crate::durable::codec::{Codecs, Decoder};
use crate::durable::global::Item;

/// Changes of a share, about: they are sorted in a core's caches.
const ENTRIES_PER_SHARE: u64 = 1 << 16;
/// Least shares for each worker, so that no worker has much more to do than the others; and most
/// shares.
const SHARES_PER_WORKER: u64 = 4;
const SHARES_MAX: u64 = 4096;
/// Blocks that a division is drawn from, and changes of each.
const SAMPLED_BLOCKS: usize = 512;
const SAMPLED_CHANGES: usize = 64;
/// In place of the stamp: the row is not to be taken from the checkpoint.
const GONE: u64 = u64::MAX;

/// The row of a change: table and key, or what stands for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowName {
    table: u16,
    word: u64,
    /// Hash of the other words.
    hash: u32,
}

/// One change of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    word: u64,
    pub stamp: u64,
    hash: u32,
    table: u16,
    kind: u8,
    /// Where the change is: the number of the block, and the place in its payload. Of two changes
    /// of one transaction the later change has the later place.
    block: u32,
    at: u32,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    pub fn new(row: RowName, kind: u8, stamp: u64, block: usize, at: usize) -> Self {
        let RowName { table, word, hash } = row;
        Entry { word, stamp, hash, table, kind, block: block as u32, at: at as u32 }
    }

    pub fn row(&self) -> RowName {
        RowName { table: self.table, word: self.word, hash: self.hash }
    }

    pub fn table(&self) -> usize {
        usize::from(self.table)
    }

    pub fn kind(&self) -> u8 {
        self.kind
    }

    pub fn block(&self) -> usize {
        self.block as usize
    }

    pub fn at(&self) -> usize {
        self.at as usize
    }

    /// In place of all changes of a row that is not to be taken from the checkpoint.
    pub fn gone(self) -> Self {
        Entry { stamp: GONE, ..self }
    }

    pub fn is_gone(&self) -> bool {
        self.stamp == GONE
    }

    /// Brings the changes of each row together, in the order in which they were made.
    pub fn sort(entries: &mut [Entry]) {
        entries.sort_unstable_by(|one, other| {
            one.row().cmp(&other.row()).then_with(|| one.in_time().cmp(&other.in_time()))
        });
    }

    /// Orders the changes of a row by the time of the change.
    pub fn in_time(&self) -> (u64, u32, u32) {
        (self.stamp, self.block, self.at)
    }
}

/// The rest of a share when the rows that the log inserts are made.
#[derive(Default)]
pub(super) struct Remainder {
    /// Changes of rows that the checkpoint has, and names of rows that are not to be taken from it,
    /// in order.
    pub entries: Vec<Entry>,
    /// How many rows the checkpoint has to have.
    pub changed: u64,
}

/// Which share has which rows.
pub(super) struct Division {
    /// By table: the word of the key that distinguishes most keys.
    words: Vec<usize>,
    /// Bits of hashes that are used.
    hash_mask: u32,
    /// How many changes there are, about.
    pub changes: u64,
    /// The first row of each share but the first.
    starts: Vec<(u16, u64)>,
}

impl Division {
    /// Divides the rows of these blocks among shares for this many workers.
    pub fn of(codecs: &Codecs, blocks: &[LogBlock<'_>], workers: usize, hash_mask: u32) -> Self {
        let mut keys: Vec<(u16, Vec<u64>)> = Vec::new();
        let (mut bytes, mut sampled) = (0, 0);
        for block in blocks.iter().step_by(blocks.len().div_ceil(SAMPLED_BLOCKS).max(1)) {
            let before = keys.len();
            for record in Records::new(block.payload) {
                let mut body = record.body;
                while let Ok(Some(_)) = Item::take(&mut body) {}
                let mut decoder = Decoder::new(codecs, body);
                while let Ok(Some((table, change))) = decoder.next() {
                    let codec = &codecs[table];
                    keys.push((table as u16, change.key(codec).words(codec.key_words).to_vec()));
                }
                bytes += record.body.len() as u64;
                if keys.len() - before >= SAMPLED_CHANGES {
                    break;
                }
            }
            sampled += (keys.len() - before) as u64;
        }
        let total: u64 = blocks.iter().map(|block| block.payload.len() as u64).sum();
        let changes = total * sampled / bytes.max(1);
        let least = SHARES_PER_WORKER * workers as u64;
        let shares = (changes / ENTRIES_PER_SHARE).clamp(least, SHARES_MAX.max(least));
        let words: Vec<_> = (0..codecs.len()).map(|table| distinguishing_word(&keys, table as u16)).collect();
        let mut samples: Vec<_> =
            keys.iter().map(|(table, key)| (*table, word_of(key, words[usize::from(*table)]))).collect();
        samples.sort_unstable();
        let start = |share: u64| samples.get((share * samples.len() as u64 / shares) as usize).copied();
        let mut starts: Vec<_> = (1..shares).filter_map(start).collect();
        starts.dedup();
        Division { words, hash_mask, changes, starts }
    }

    pub fn shares(&self) -> usize {
        self.starts.len() + 1
    }

    pub fn share_of(&self, row: RowName) -> usize {
        self.starts.partition_point(|start| *start <= (row.table, row.word))
    }

    #[inline]
    pub fn name(&self, table: usize, key: &[u64]) -> RowName {
        let mix = |hash: u64, word: &u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = if key.len() == 1 { 0 } else { (key.iter().fold(0, mix) >> 32) as u32 };
        RowName { table: table as u16, word: word_of(key, self.words[table]), hash: hash & self.hash_mask }
    }
}

/// A word of a key; long keys lack the zeros at their ends.
fn word_of(key: &[u64], word: usize) -> u64 {
    key.get(word).copied().unwrap_or(0)
}

/// The first word in which the keys of a table differ.
fn distinguishing_word(keys: &[(u16, Vec<u64>)], table: u16) -> usize {
    let mut own = keys.iter().filter(|(of, _)| *of == table).map(|(_, key)| key);
    let Some(first) = own.next() else { return 0 };
    let differing = own.filter_map(|key| {
        (0..key.len().max(first.len())).find(|word| word_of(key, *word) != word_of(first, *word))
    });
    differing.min().unwrap_or(0)
}

/// The entries of a row in sorted entries, searched for from `hint` on if it lies there: rows are
/// mostly asked for in order.
pub(super) fn find<'e>(entries: &'e [Entry], row: RowName, hint: &mut usize) -> &'e [Entry] {
    let before = |entry: &Entry| entry.row() < row;
    let mut low =
        if *hint <= entries.len() && entries[..*hint].last().is_none_or(before) { *hint } else { 0 };
    let mut step = 1;
    while entries.get(low + step - 1).is_some_and(before) {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(entries.len());
    low += entries[low..high].partition_point(before);
    *hint = low;
    let count = entries[low..].iter().take_while(|entry| entry.row() == row).count();
    &entries[low..low + count]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(word: u64, stamp: u64, at: usize) -> Entry {
        Entry::new(RowName { table: 1, word, hash: 0 }, 1, stamp, 0, at)
    }

    #[test]
    fn rows_are_found_wherever_the_search_begins() {
        let mut entries: Vec<_> = (0..200u64).map(|number| entry(number / 3 * 2, number % 3, 0)).collect();
        entries.reverse();
        Entry::sort(&mut entries);
        for word in 0..140 {
            for hint in [0, 1, 7, 100, 199, 200, 900] {
                let row = RowName { table: 1, word, hash: 0 };
                let found = find(&entries, row, &mut { hint });
                let expected: Vec<_> = entries.iter().filter(|entry| entry.row() == row).collect();
                assert_eq!(found.len(), expected.len(), "word {word} from {hint}");
                assert!(
                    found.is_sorted_by_key(Entry::in_time) && found.iter().all(|entry| entry.row() == row)
                );
            }
        }
    }

    #[test]
    fn changes_are_in_order_of_stamps_and_then_of_places() {
        let mut entries = vec![entry(1, 5, 9), entry(1, 5, 3), entry(1, 4, 20), entry(0, 9, 0)];
        Entry::sort(&mut entries);
        let order: Vec<_> = entries.iter().map(|entry| (entry.stamp, entry.at())).collect();
        assert_eq!(order, [(9, 0), (4, 20), (5, 3), (5, 9)]);
    }

    #[test]
    fn words_that_distinguish_nothing_are_skipped() {
        let keys = [(0, vec![7, 1]), (0, vec![7, 2]), (1, vec![3]), (1, vec![4])];
        assert_eq!([0, 1, 2].map(|table| distinguishing_word(&keys, table)), [1, 0, 0]);
    }
}
