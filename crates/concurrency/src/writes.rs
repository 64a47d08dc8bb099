//! The bytes that a transaction will write into rows when it commits: changed bytes only.
//!
//! Each write is a chunk: a header word (offset and length in bytes, place of the row's next
//! chunk), then the bytes, shifted so that they lie in words as they will in the row. Applying a
//! chunk stores whole words; at the chunk's edges the row's bytes are kept, which no other
//! transaction changes while the writer has the row.

use platform::Platform;

/// No chunk.
pub(crate) const NONE: u32 = u32::MAX;

/// Bytes of the longest row.
pub const ROW_BYTES_MAX: usize = terms::rows::FIXED_BYTES_MAX;

/// The first and last chunk of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { first: NONE, last: NONE };

    pub(crate) fn is_empty(self) -> bool {
        self.first == NONE
    }
}

#[derive(Clone, Copy)]
struct Header {
    next: u32,
    offset: u16,
    bytes: u16,
}

const _: () = assert!(ROW_BYTES_MAX <= u16::MAX as usize);

impl Header {
    fn pack(self) -> u64 {
        u64::from(self.next) << 32 | u64::from(self.offset) << 16 | u64::from(self.bytes)
    }

    fn unpack(word: u64) -> Self {
        Header { next: (word >> 32) as u32, offset: (word >> 16) as u16, bytes: word as u16 }
    }

    /// Words of the row that the chunk covers: the first, and the one after the last.
    fn words(self) -> (usize, usize) {
        let (start, end) = (usize::from(self.offset), usize::from(self.offset) + usize::from(self.bytes));
        (start / 8, end.div_ceil(8))
    }
}

/// The chunks of all rows of one transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteBuffer {
    words: Vec<u64>,
    /// Chunks before this word are as they were at a savepoint, to which the transaction may roll
    /// back: what is written over them is saved first.
    sealed: usize,
    /// The saved chunks: of each its words, its place, and how many words it has.
    saved: Vec<u64>,
}

/// The writes of a transaction at a savepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteMark {
    words: usize,
    saved: usize,
}

/// Copies `bytes` into `words`, which start at the word that byte `offset` lies in. Words are
/// little-endian.
#[inline(always)]
pub(crate) fn place(words: &mut [u64], offset: usize, bytes: &[u8]) {
    const { assert!(cfg!(target_endian = "little"), "rows are little-endian words") };
    let start = offset % 8;
    if start == 0 && bytes.len().is_multiple_of(8) {
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        return;
    }
    bytemuck::cast_slice_mut::<u64, u8>(words)[start..start + bytes.len()].copy_from_slice(bytes);
}

/// Stores words. Most fields are of one or two: then their number is known where the loop is
/// compiled.
#[inline(always)]
fn store<P: Platform>(c: P::Core, to: &[P::Word], from: &[u64]) {
    match to.len() {
        1 => P::write_words(c, &to[..1], &from[..1]),
        2 => P::write_words(c, &to[..2], &from[..2]),
        _ => P::write_words(c, to, from),
    }
}

/// Overwrites words of a row that begin with the word in which byte `offset` lies, and gives what
/// was there.
#[inline(always)]
pub(crate) fn exchange<P: Platform, const N: usize>(
    c: P::Core,
    words: &[P::Word],
    offset: usize,
    bytes: &[u8],
) -> [u64; N] {
    let mut old = [0; N];
    P::read_words(c, &words[..N], &mut old);
    let mut new = old;
    place(&mut new, offset, bytes);
    P::write_words(c, &words[..N], &new);
    old
}

/// Bits of a word that are covered by bytes `from..to` of it.
fn mask(from: usize, to: usize) -> u64 {
    let upper = if to >= 8 { u64::MAX } else { (1 << (to * 8)) - 1 };
    upper & (u64::MAX << (from * 8))
}

impl WriteBuffer {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }

    /// Appends a write of `bytes` at byte `offset` of the row; the same place again overwrites.
    #[inline(always)]
    pub(crate) fn push(&mut self, chain: &mut Chain, offset: usize, bytes: &[u8]) {
        if chain.last != NONE {
            return self.push_another(chain, offset, bytes);
        }
        let at = self.append(offset, bytes);
        *chain = Chain { first: at, last: at };
    }

    /// As [`Self::push`], to a row that has writes.
    fn push_another(&mut self, chain: &mut Chain, offset: usize, bytes: &[u8]) {
        let last = chain.last as usize;
        let header = Header::unpack(self.words[last]);
        if usize::from(header.offset) == offset && usize::from(header.bytes) == bytes.len() {
            if last < self.sealed {
                self.save(last);
            }
            place(&mut self.words[last + 1..], offset, bytes);
            return;
        }
        let at = self.append(offset, bytes);
        self.words[last] = Header { next: at, ..header }.pack();
        chain.last = at;
    }

    /// Appends a chunk; where it begins. Most are of one or two words: one check of the room that
    /// is left.
    #[inline(always)]
    fn append(&mut self, offset: usize, bytes: &[u8]) -> u32 {
        let at = self.words.len();
        let header = Header { next: NONE, offset: offset as u16, bytes: bytes.len() as u16 };
        let word = |number: usize| {
            let bytes = &bytes[8 * number..8 * number + 8];
            u64::from_le_bytes(bytes.try_into().unwrap_or_default())
        };
        match (offset % 8, bytes.len()) {
            (0, 8) => self.words.extend_from_slice(&[header.pack(), word(0)]),
            (0, 16) => self.words.extend_from_slice(&[header.pack(), word(0), word(1)]),
            _ => self.append_any(header, bytes),
        }
        at as u32
    }

    fn append_any(&mut self, header: Header, bytes: &[u8]) {
        let at = self.words.len();
        let (first, end) = header.words();
        self.words.push(header.pack());
        self.words.resize(at + 1 + end - first, 0);
        place(&mut self.words[at + 1..], usize::from(header.offset), bytes);
    }

    /// Keeps all chunks as they are, for [`Self::roll_back`].
    pub(crate) fn seal(&mut self) -> WriteMark {
        self.sealed = self.words.len();
        WriteMark { words: self.words.len(), saved: self.saved.len() }
    }

    /// Forgets what was saved.
    pub(crate) fn unseal(&mut self) {
        self.sealed = 0;
        self.saved.clear();
    }

    #[cold]
    fn save(&mut self, at: usize) {
        let (from, to) = Header::unpack(self.words[at]).words();
        self.saved.extend_from_slice(&self.words[at + 1..at + 1 + to - from]);
        self.saved.extend_from_slice(&[at as u64, (to - from) as u64]);
    }

    /// Returns true if something was written since the mark that [`Self::cut`] would remove.
    pub(crate) fn has_grown_since(&self, mark: WriteMark) -> bool {
        self.words.len() > mark.words
    }

    /// Makes all chunks that were there at the mark what they were. The caller cuts the chains of
    /// all rows first ([`Self::cut`]): the chunks behind the mark go.
    pub(crate) fn roll_back(&mut self, mark: WriteMark) {
        while self.saved.len() > mark.saved
            && let (Some(count), Some(at)) = (self.saved.pop(), self.saved.pop())
        {
            let (at, first) = (at as usize, self.saved.len() - count as usize);
            self.words[at + 1..at + 1 + count as usize].copy_from_slice(&self.saved[first..]);
            self.saved.truncate(first);
        }
        self.words.truncate(mark.words);
        self.sealed = mark.words;
    }

    /// Takes the chunks behind a mark out of a row's chain.
    pub(crate) fn cut(&mut self, chain: &mut Chain, mark: WriteMark) {
        let is_kept = |at: u32| at != NONE && (at as usize) < mark.words;
        if chain.last == NONE || is_kept(chain.last) {
            return;
        }
        if !is_kept(chain.first) {
            *chain = Chain::EMPTY;
            return;
        }
        let mut last = chain.first;
        loop {
            let header = Header::unpack(self.words[last as usize]);
            if !is_kept(header.next) {
                self.words[last as usize] = Header { next: NONE, ..header }.pack();
                chain.last = last;
                return;
            }
            last = header.next;
        }
    }

    /// Returns true if one of the row's writes is of this place.
    pub(crate) fn writes_at(&self, chain: Chain, offset: usize) -> bool {
        let mut at = chain.first;
        while at != NONE {
            let header = Header::unpack(self.words[at as usize]);
            if usize::from(header.offset) == offset {
                return true;
            }
            at = header.next;
        }
        false
    }

    /// Lays the writes over `words`, a copy of the row's words from number `first` on.
    #[inline(always)]
    pub(crate) fn overlay(&self, chain: Chain, first: usize, words: &mut [u64]) {
        if !chain.is_empty() {
            self.lay_over(chain, first, words);
        }
    }

    fn lay_over(&self, chain: Chain, first: usize, words: &mut [u64]) {
        let mut at = chain.first;
        while at != NONE {
            let header = Header::unpack(self.words[at as usize]);
            let (from, to) = header.words();
            for word in from.max(first)..to.min(first + words.len()) {
                let covered = Self::covered(header, word);
                let new = self.words[at as usize + 1 + word - from];
                let slot = &mut words[word - first];
                *slot = *slot & !covered | new & covered;
            }
            at = header.next;
        }
    }

    #[inline]
    fn covered(header: Header, word: usize) -> u64 {
        let start = usize::from(header.offset).saturating_sub(word * 8).min(8);
        let end = (usize::from(header.offset) + usize::from(header.bytes)).saturating_sub(word * 8).min(8);
        mask(start, end)
    }

    /// The writes of a row, in their order, up to byte `end` of the row: bytes behind `end` do not
    /// belong to its value.
    pub(crate) fn changes(&self, chain: Chain, end: usize) -> RowChanges<'_> {
        let mut changes = RowChanges { words: &self.words, next: chain.first, end };
        changes.skip_beyond();
        changes
    }

    /// Stores the writes into the row. The caller has the row to itself.
    #[inline(always)]
    pub(crate) fn apply<P: Platform>(&mut self, c: P::Core, chain: Chain, row: &[P::Word]) {
        let mut at = chain.first;
        while at != NONE {
            let start = at as usize;
            let header = Header::unpack(self.words[start]);
            if !(header.offset | header.bytes).is_multiple_of(8) {
                self.keep_edges::<P>(start, row);
            }
            let (from, to) = header.words();
            store::<P>(c, &row[from..to], &self.words[start + 1..][..to - from]);
            at = header.next;
        }
    }

    /// Makes the first and the last word of a chunk what they will be in the row.
    fn keep_edges<P: Platform>(&mut self, start: usize, row: &[P::Word]) {
        let header = Header::unpack(self.words[start]);
        let (from, to) = header.words();
        for word in [from, to - 1] {
            let covered = Self::covered(header, word);
            let slot = &mut self.words[start + 1 + word - from];
            *slot = P::peek(&row[word]) & !covered | *slot & covered;
        }
    }
}

/// The writes of one row: places and bytes.
#[derive(Clone)]
pub struct RowChanges<'a> {
    words: &'a [u64],
    next: u32,
    end: usize,
}

impl RowChanges<'_> {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.next == NONE
    }

    #[inline]
    fn header(&self) -> Option<Header> {
        (self.next != NONE).then(|| Header::unpack(self.words[self.next as usize]))
    }

    #[inline]
    fn skip_beyond(&mut self) {
        while let Some(header) = self.header()
            && usize::from(header.offset) >= self.end
        {
            self.next = header.next;
        }
    }
}

impl<'a> Iterator for RowChanges<'a> {
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let header = self.header()?;
        let (from, to) = header.words();
        let start = self.next as usize + 1;
        let bytes: &[u8] = bytemuck::cast_slice(&self.words[start..start + to - from]);
        let (offset, skip) = (usize::from(header.offset), usize::from(header.offset) % 8);
        self.next = header.next;
        self.skip_beyond();
        Some((offset, &bytes[skip..skip + usize::from(header.bytes)]))
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;
    use proptest::prelude::*;

    use super::*;

    type Writes = Vec<(usize, Vec<u8>)>;

    fn writes() -> impl Strategy<Value = Writes> {
        // Few places, so that some are written again.
        prop::collection::vec((0usize..6, 1usize..3, any::<u8>()), 0..12).prop_map(|all| {
            all.into_iter().map(|(place, words, byte)| (place * 4, vec![byte; words * 4])).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn a_roll_back_gives_what_was_there(before in writes(), between in writes(), later in writes(), to_first: bool) {
            let mut buffer = WriteBuffer::default();
            let mut chains = [Chain::EMPTY; 2];
            let shown = |buffer: &WriteBuffer, chains: &[Chain; 2]| chains.map(|chain| {
                let mut words = [u64::MAX; 5];
                buffer.overlay(chain, 0, &mut words);
                words
            });
            let write = |buffer: &mut WriteBuffer, chains: &mut [Chain; 2], writes: &Writes| {
                for (number, (offset, bytes)) in writes.iter().enumerate() {
                    buffer.push(&mut chains[number % 2], *offset, bytes);
                }
            };
            write(&mut buffer, &mut chains, &before);
            let (first, of_first) = (buffer.seal(), shown(&buffer, &chains));
            write(&mut buffer, &mut chains, &between);
            let (second, of_second) = (buffer.seal(), shown(&buffer, &chains));
            write(&mut buffer, &mut chains, &later);
            for (mark, expected) in [(second, of_second), (second, of_second), (first, of_first)] {
                if mark == first && !to_first {
                    break;
                }
                chains.iter_mut().for_each(|chain| buffer.cut(chain, mark));
                buffer.roll_back(mark);
                prop_assert_eq!(shown(&buffer, &chains), expected);
                // The same again, and once more.
                write(&mut buffer, &mut chains, &later);
                chains.iter_mut().for_each(|chain| buffer.cut(chain, mark));
                buffer.roll_back(mark);
                prop_assert_eq!(shown(&buffer, &chains), expected);
            }
            buffer.unseal();
            write(&mut buffer, &mut chains, &later);
        }

        #[test]
        fn chunks_give_what_was_written(
            writes in prop::collection::vec((0usize..100, prop::collection::vec(any::<u8>(), 1..28)), 0..12),
        ) {
            let mut expected = [7u8; 128];
            let mut buffer = WriteBuffer::default();
            // Another row's chunks lie in between.
            let (mut chain, mut other) = (Chain::EMPTY, Chain::EMPTY);
            for (offset, bytes) in &writes {
                buffer.push(&mut chain, *offset, bytes);
                buffer.push(&mut other, 3, &[1; 9]);
                expected[*offset..*offset + bytes.len()].copy_from_slice(bytes);
            }
            let old = u64::from_le_bytes([7; 8]);
            let mut copy = [old; 16];
            buffer.overlay(chain, 0, &mut copy);
            let row: Vec<_> = (0..16).map(|_| <Hardware as Platform>::Word::new(old)).collect();
            buffer.apply::<Hardware>(Hardware::core(), chain, &row);
            let mut repeated = [7u8; 128];
            for (offset, bytes) in buffer.changes(chain, 128) {
                repeated[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            prop_assert_eq!(repeated, expected);
            let beyond = |(offset, _): (usize, &[u8])| offset >= 50;
            prop_assert!(!buffer.changes(chain, 50).any(beyond));
            let mut part = [old; 5];
            buffer.overlay(chain, 4, &mut part);
            for (index, word) in row.iter().enumerate() {
                let wanted = u64::from_le_bytes(expected[index * 8..index * 8 + 8].try_into().expect("8 bytes"));
                prop_assert_eq!(Hardware::peek(word), wanted);
                prop_assert_eq!(copy[index], wanted);
                if (4..9).contains(&index) {
                    prop_assert_eq!(part[index - 4], wanted);
                }
            }
        }
    }
}
