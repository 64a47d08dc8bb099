//! The master file of a directory, which a checkpoint leaves; it replaces the one before in one
//! step.
//!
//! ```text
//! word 0..9     magic; version of the format (32 bits), bytes of a page (32); identity of the database; generation of the log; the LSN from
//!               which changes are repeated; the LSN from which transactions may have to be undone; the LSN up to which the log was on disk; lives;
//!               bytes of the description of the tables; trees
//! then          the description, filled up to a word
//! a tree        number of its root
//! a life        its name; where the log ended that it found; the first byte of its own
//! then          prepared parts; each: number of the transaction, its number among several databases (2), the instance that decides, words
//!               of what takes its changes back, these
//! then          decisions; each: number among several databases (2), instances that have to hear of it, these
//! then          pages; a word for each: 0 free, 1 in use, larger: where its last change ended in the log when it was written
//! last          checksum (CRC-32C) of all before
//! ```

use boundary::{Decision, PartOf};
use platform::files::{Access, Buffer, Existence, FileError, Files, Operation};
use redo_log::{LogError, PAGES_CHECKPOINT};

use crate::checkpoints::undecided::{KnownPart, UndecidedContent};
use crate::error::PagedError;
use crate::files::life::Life;
use crate::log::reader::ReadingStart;
use crate::log::record;
use crate::lsn::Lsn;

const MAGIC: u64 = u64::from_le_bytes(*b"islesPAG");
const FORMAT: u64 = 6;
const HEAD: usize = 10;

/// Name of the file, and the one it has while it is written.
pub(crate) const NAME: &str = PAGES_CHECKPOINT;
pub(crate) const NEW_NAME: &str = "pages.checkpoint.new";

/// The file that is there while a database is made, before its first checkpoint.
pub(crate) const MAKING: &str = "pages.making";

/// The error for a directory with other files of a database and no master file.
pub(crate) fn missing() -> PagedError {
    let what = "it is missing, and other files of a database are there: put it back";
    LogError::Damaged { file: NAME.to_owned(), offset: 0, what }.into()
}

/// Most lives that are remembered: of earlier ones no copy is known any more.
const LIVES_MAX: usize = 1 << 10;

/// Bytes that are read and written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The content of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub page_bytes: usize,
    /// No other database has it, its copies aside: every file says it.
    pub identity: u64,
    pub generation: u64,
    /// Changes that end later are repeated.
    pub redo: Lsn,
    /// The oldest transaction that was under way began here at the earliest.
    pub low: Lsn,
    /// The log was on disk up to here: one that ends before has been damaged.
    pub durable: Lsn,
    /// The lives that the database has had; the last one has made the checkpoint.
    pub lives: Vec<Life>,
    /// The description of the tables, as the engine encodes it.
    pub description: Vec<u8>,
    /// Roots of all trees, by number.
    pub roots: Vec<u64>,
    /// The known state of each page, from number 1 on.
    pub states: Vec<u64>,
    /// Parts that were prepared, and decisions that were not forgotten.
    pub carried: UndecidedContent,
}

/// Takes words off the front.
struct Words<'w>(&'w [u64]);

impl<'w> Words<'w> {
    fn take(&mut self, count: u64) -> Option<&'w [u64]> {
        let (words, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(words)
    }

    fn word(&mut self) -> Option<u64> {
        self.take(1).map(|words| words[0])
    }

    fn counted(&mut self) -> Option<&'w [u64]> {
        let count = self.word()?;
        self.take(count)
    }

    fn life(&mut self) -> Option<Life> {
        Some(Life { name: self.word()?, continues: Lsn(self.word()?), begins: Lsn(self.word()?) })
    }

    fn part(&mut self) -> Option<KnownPart> {
        let transaction = self.word()?;
        let global = record::global_of(self.take(2)?)?;
        let coordinator = u16::try_from(self.word()?).ok()?;
        let steps = self.counted()?.to_vec();
        Some(KnownPart { transaction, part: PartOf { global, coordinator }, steps })
    }

    fn decision(&mut self) -> Option<Decision> {
        let global = record::global_of(self.take(2)?)?;
        let instances = self.counted()?.iter();
        let participants = instances.map(|instance| u16::try_from(*instance).ok()).collect::<Option<_>>()?;
        Some(Decision { global, participants })
    }

    fn carried(&mut self) -> Option<UndecidedContent> {
        let parts = self.word()?;
        let parts = (0..parts).map(|_| self.part()).collect::<Option<_>>()?;
        let decisions = self.word()?;
        let decisions = (0..decisions).map(|_| self.decision()).collect::<Option<_>>()?;
        Some(UndecidedContent { parts, decisions })
    }
}

impl Master {
    /// The master of an empty directory.
    pub(crate) fn nothing(page_bytes: usize) -> Self {
        Master {
            page_bytes,
            identity: 0,
            generation: 0,
            redo: Lsn(0),
            low: Lsn(0),
            durable: Lsn(0),
            lives: Vec::new(),
            description: Vec::new(),
            roots: Vec::new(),
            states: Vec::new(),
            carried: UndecidedContent::default(),
        }
    }

    fn encode(&self) -> Vec<u64> {
        let Master { page_bytes, identity, generation, redo, low, durable, lives, .. } = self;
        let Master { description, roots, states, carried, .. } = self;
        let head = FORMAT | (*page_bytes as u64) << 32;
        let lengths = [lives.len(), description.len(), roots.len()].map(|length| length as u64);
        let mut words = vec![MAGIC, head, *identity, *generation, redo.0, low.0, durable.0];
        words.extend(lengths);
        debug_assert_eq!(words.len(), HEAD);
        let from = words.len();
        words.resize(from + description.len().div_ceil(8), 0);
        bytemuck::cast_slice_mut::<u64, u8>(&mut words[from..])[..description.len()]
            .copy_from_slice(description);
        words.extend_from_slice(roots);
        words.extend(lives.iter().flat_map(|life| [life.name, life.continues.0, life.begins.0]));
        words.push(carried.parts.len() as u64);
        for KnownPart { transaction, part, steps } in &carried.parts {
            words.push(*transaction);
            words.extend(record::words_of(part.global));
            words.extend([u64::from(part.coordinator), steps.len() as u64]);
            words.extend_from_slice(steps);
        }
        words.push(carried.decisions.len() as u64);
        for Decision { global, participants } in &carried.decisions {
            words.extend(record::words_of(*global));
            words.push(participants.len() as u64);
            words.extend(participants.iter().map(|instance| u64::from(*instance)));
        }
        words.push(states.len() as u64);
        words.extend_from_slice(states);
        words.push(u64::from(crc32c::crc32c(bytemuck::cast_slice(&words))));
        words
    }

    fn decode(words: &[u64]) -> Option<Master> {
        let (sum, rest) = words.split_last()?;
        let head = rest.get(..HEAD)?;
        if *sum != u64::from(crc32c::crc32c(bytemuck::cast_slice(rest))) || head[0] != MAGIC {
            return None;
        }
        let mut rest = Words(&rest[HEAD..]);
        let description_bytes = usize::try_from(head[8]).ok()?;
        let description = rest.take(head[8].div_ceil(8))?;
        let roots = rest.take(head[9])?;
        let lives = (0..head[7]).map(|_| rest.life()).collect::<Option<_>>()?;
        let carried = rest.carried()?;
        let (count, states) = rest.0.split_first()?;
        (states.len() as u64 == *count).then(|| Master {
            page_bytes: (head[1] >> 32) as usize,
            identity: head[2],
            generation: head[3],
            redo: Lsn(head[4]),
            low: Lsn(head[5]),
            durable: Lsn(head[6]),
            lives,
            description: bytemuck::cast_slice(description)[..description_bytes].to_vec(),
            roots: roots.to_vec(),
            states: states.to_vec(),
            carried,
        })
    }

    /// The name of the life that has made the checkpoint.
    pub(crate) fn life(&self) -> u64 {
        self.lives.last().map_or(0, |life| life.name)
    }

    /// The point from which the log is read.
    pub(crate) fn start(&self) -> ReadingStart {
        let Master { identity, low, durable, .. } = *self;
        ReadingStart { identity, life: self.life(), low, durable }
    }

    /// The last byte of the file of pages that must be there: pages that had changed by the time
    /// the checkpoint began were on disk when it ended, and the log has images of all others.
    /// `stride` is the number of bytes from one page to the next.
    pub(crate) fn pages_end(&self, stride: u64) -> u64 {
        let states = (1..).zip(&self.states);
        let written = states.filter(|(_, state)| (2..=self.redo.0).contains(*state));
        written.last().map_or(0, |(number, _)| number * stride + self.page_bytes as u64)
    }

    /// The generations when others have begun.
    pub(crate) fn lives_with(&self, more: &[Life]) -> Vec<Life> {
        let all = || self.lives.iter().chain(more).copied();
        all().skip(all().count().saturating_sub(LIVES_MAX)).collect()
    }

    /// Up to where the log of a copy may go, if the copy is what the database was once: behind that
    /// the two have lives of their own. `None`: it is a copy of another database, or its last life
    /// is one that only the copy has had.
    pub(crate) fn agrees_up_to(&self, copy: &Master) -> Option<Lsn> {
        let last = copy.lives.last()?;
        let at = self.lives.iter().position(|life| life.name == last.name)?;
        Some(self.lives.get(at + 1).map_or(Lsn(u64::MAX), |next| next.continues))
    }

    /// Puts it in the place of the one before. When this returns, it is durable.
    pub(crate) fn write<P: Files>(&self, c: P::Core, queue: &mut P::Queue) -> Result<(), PagedError> {
        let entries = P::perform(c, queue, Operation::List).into_entries()?;
        if entries.iter().any(|entry| entry.name == NEW_NAME) {
            P::perform(c, queue, Operation::Remove { name: NEW_NAME.to_owned() }).result?;
            // Its name goes for good: it must not take the place of the one before.
            P::perform(c, queue, Operation::FlushDirectory).result?;
        }
        let name = NEW_NAME.to_owned();
        let open = Operation::Open { name: name.clone(), existence: Existence::New, access: Access::Cached };
        let file = P::perform(c, queue, open).into_file()?;
        let words = self.encode();
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let mut buffer = Buffer::new(c, None, CHUNK_BYTES.min(bytes.len()), "checkpoint of pages")?;
        for (number, chunk) in bytes.chunks(buffer.capacity()).enumerate() {
            buffer.set_len(0);
            let offset = (number * buffer.capacity()) as u64;
            buffer.append(c, chunk);
            let write = Operation::Write { file: file.clone(), offset, buffers: vec![buffer] };
            let completion = P::perform(c, queue, write);
            completion.result?;
            let Some(back) = completion.buffers.into_iter().next() else {
                return Err(FileError::stopped().into());
            };
            buffer = back;
        }
        P::perform(c, queue, Operation::Flush { file }).result?;
        P::perform(c, queue, Operation::Rename { from: name, to: NAME.to_owned() }).result?;
        P::perform(c, queue, Operation::FlushDirectory).result?;
        Ok(())
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is damaged, or of another version, or cannot be read.
    pub(crate) fn read<P: Files>(c: P::Core, queue: &mut P::Queue) -> Result<Master, PagedError> {
        let name = NAME.to_owned();
        let open = Operation::Open { name, existence: Existence::Old, access: Access::Cached };
        let file = P::perform(c, queue, open).into_file()?;
        let size = P::perform(c, queue, Operation::Size { file: file.clone() }).bytes()?;
        let mut words = vec![0; size.div_ceil(8) as usize];
        let bytes: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut words)[..size as usize];
        let mut buffer = Buffer::new(c, None, CHUNK_BYTES.min(bytes.len()), "checkpoint of pages")?;
        let mut offset = 0;
        while offset < bytes.len() {
            buffer.set_len(0);
            let read = Operation::Read { file: file.clone(), offset: offset as u64, buffer };
            let mut completion = P::perform(c, queue, read);
            let count = (completion.bytes()? as usize).min(bytes.len() - offset);
            let Some(back) = completion.buffers.pop().filter(|_| count > 0) else { break };
            buffer = back;
            buffer.set_len(count);
            bytes[offset..offset + count].copy_from_slice(buffer.bytes());
            offset += count;
        }
        let found = words.get(1).map_or(FORMAT, |head| head & 0xffff_ffff);
        if words.first() == Some(&MAGIC) && found != FORMAT {
            return Err(LogError::Format { found: found as u32, known: FORMAT as u32 }.into());
        }
        let damaged = LogError::Damaged {
            file: NAME.to_owned(),
            offset: 0,
            what: "it is not what a checkpoint leaves",
        };
        Master::decode(&words).ok_or(damaged.into())
    }
}

#[cfg(test)]
mod tests {
    use boundary::GlobalId;

    use super::*;

    fn life(name: u64, end: u64) -> Life {
        Life { name, continues: Lsn(end), begins: Lsn(end + 5) }
    }

    #[test]
    fn masters_are_read_as_written_and_nothing_else() {
        let master = Master {
            page_bytes: 8192,
            identity: 0xfeed,
            generation: 4,
            redo: Lsn(77),
            low: Lsn(66),
            durable: Lsn(99),
            lives: vec![life(5, 0), life(9, 60)],
            description: vec![1, 2, 3, 4, 5, 6, 7, 8, 9],
            roots: vec![1, 2, 9],
            states: vec![0, 1, 4096],
            carried: UndecidedContent {
                parts: vec![KnownPart {
                    transaction: 12,
                    part: PartOf { global: GlobalId(1 << 100 | 3), coordinator: 7 },
                    steps: vec![5, 6, 7],
                }],
                decisions: vec![Decision { global: GlobalId(9), participants: vec![1, 700] }],
            },
        };
        let words = master.encode();
        assert_eq!(Master::decode(&words), Some(master));
        for bit in 0..words.len() * 64 {
            let mut flipped = words.clone();
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(Master::decode(&flipped), None, "bit {bit}");
        }
        (0..words.len()).for_each(|count| assert_eq!(Master::decode(&words[..count]), None, "{count}"));
    }

    #[test]
    fn a_copy_is_what_the_database_was_once_or_has_a_life_of_its_own() {
        let of = |lives: &[Life]| Master { lives: lives.to_vec(), ..Master::nothing(8192) };
        let database = of(&[life(1, 0), life(2, 50), life(3, 90)]);
        assert_eq!(database.agrees_up_to(&of(&[life(1, 0)])), Some(Lsn(50)));
        assert_eq!(database.agrees_up_to(&of(&[life(1, 0), life(2, 50)])), Some(Lsn(90)));
        assert_eq!(database.agrees_up_to(&database), Some(Lsn(u64::MAX)));
        assert_eq!(
            database.agrees_up_to(&of(&[life(1, 0), life(2, 50), life(7, 60)])),
            None,
            "it was opened"
        );
        assert_eq!(database.agrees_up_to(&of(&[life(8, 0)])), None);
        let many = (0..LIVES_MAX as u64).map(|name| life(name, name)).collect::<Vec<_>>();
        let lives = of(&many).lives_with(&[life(7777, 1)]);
        assert_eq!((lives.len(), lives[0], lives[LIVES_MAX - 1]), (LIVES_MAX, many[1], life(7777, 1)));
    }
}
