//! The words of a segment, of which a window is in memory at a time.

use platform::files::{BLOCK_BYTES, Buffer, FileError, Files, Operation};
use redo_log::LogError;

use crate::error::PagedError;
use crate::limits::RECORD_PAGES_MAX;
use crate::page::PAGE_BYTES;

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Words that are seen from each place on, unless the segment ends before: as many as no record
/// has.
pub(super) const AHEAD: usize = (512 << 10) / 8;

const _: () = assert!(AHEAD * 8 > RECORD_PAGES_MAX as usize * *PAGE_BYTES.end());

/// A segment that is read from its beginning towards its end.
pub(super) struct Window<P: Files> {
    file: P::File,
    /// Buffer for all reads.
    buffer: Option<Buffer<P>>,
    words: Vec<u64>,
    /// The number of the first of them in the segment.
    first: usize,
    /// Words of the segment.
    total: usize,
    /// The file has ended; zeros are behind it.
    has_ended: bool,
}

impl<P: Files> Window<P> {
    /// A window at the beginning of a file of `bytes` bytes.
    pub(super) fn new(c: P::Core, file: P::File, bytes: u64) -> Result<Self, PagedError> {
        let buffer = Some(Buffer::new(c, None, READ_BYTES, "log that is read")?);
        Ok(Window {
            file,
            buffer,
            words: Vec::new(),
            first: 0,
            total: (bytes / 8) as usize,
            has_ended: false,
        })
    }

    /// The words from number `at` on, at least [`AHEAD`] of them or all up to the segment's end.
    /// Places ascend from call to call.
    pub(super) fn words_from(
        &mut self,
        c: P::Core,
        queue: &mut P::Queue,
        at: usize,
    ) -> Result<&[u64], PagedError> {
        let until = self.total.min(at + AHEAD);
        if self.first + self.words.len() < until {
            self.forget_before(at);
            while self.first + self.words.len() < until {
                self.read_on(c, queue)?;
            }
        }
        Ok(self.words.get(at - self.first..).unwrap_or_default())
    }

    /// Words from number `at` to the segment's end.
    pub(super) fn rest(&self, at: usize) -> usize {
        self.total.saturating_sub(at)
    }

    /// Whole blocks before this word leave the memory.
    fn forget_before(&mut self, at: usize) {
        let first = at - at % (BLOCK_BYTES / 8);
        let gone = (first - self.first).min(self.words.len());
        self.words.drain(..gone);
        self.first = first;
    }

    fn read_on(&mut self, c: P::Core, queue: &mut P::Queue) -> Result<(), PagedError> {
        let begin = self.words.len();
        let count = (READ_BYTES / 8).min(self.total - self.first - begin);
        self.words.resize(begin + count, 0);
        if self.has_ended {
            return Ok(());
        }
        let mut buffer = self.buffer.take().ok_or(LogError::File(FileError::stopped()))?;
        buffer.set_len(0);
        let offset = ((self.first + begin) * 8) as u64;
        let mut completion =
            P::perform(c, queue, Operation::Read { file: self.file.clone(), offset, buffer });
        let read = completion.bytes()? as usize;
        let mut buffer = completion.buffers.pop().ok_or(LogError::File(FileError::stopped()))?;
        buffer.set_len(read.min(buffer.capacity()));
        // The file ends here, not always at the end of a block.
        self.has_ended = buffer.len() < READ_BYTES;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words[begin..]);
        let copied = buffer.len().min(bytes.len());
        bytes[..copied].copy_from_slice(&buffer.bytes()[..copied]);
        self.buffer = Some(buffer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;
    use platform::files::{Access, Existence};

    use super::*;

    /// Bytes of the file: some windows, and a part of a block.
    const FILE_BYTES: usize = 3 * READ_BYTES + 13;
    /// Length of the tested file.
    const SEGMENT_BYTES: u64 = 5 * READ_BYTES as u64;

    #[test]
    fn a_segment_is_seen_as_it_is_and_a_window_of_it_is_in_memory() {
        let (c, path) =
            (Hardware::core(), std::env::temp_dir().join(format!("window-{}", std::process::id())));
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at * 7 % 251) as u8 + 1).collect();
        let directory = Hardware::open_directory(c, &path, true).expect("a directory");
        let mut queue = Hardware::queue(c, &directory).expect("a queue");
        let open = |existence, access| Operation::Open { name: "segment".to_owned(), existence, access };
        let opening = open(Existence::New, Access::Cached);
        let file = Hardware::perform(c, &mut queue, opening).into_file().expect("a new file");
        let mut buffer = Buffer::new(c, None, FILE_BYTES, "test").expect("memory");
        assert!(buffer.append(c, &bytes));
        let write = Operation::Write { file, offset: 0, buffers: vec![buffer] };
        Hardware::perform(c, &mut queue, write).result.expect("it is written");
        let opening = open(Existence::Old, Access::Direct);
        let file = Hardware::perform(c, &mut queue, opening).into_file().expect("the file");
        let expected = |at: usize| {
            let end = FILE_BYTES.min(at * 8 + 8);
            let mut word = [0; 8];
            let there = bytes.get(at * 8..end).unwrap_or_default();
            word[..there.len()].copy_from_slice(there);
            u64::from_ne_bytes(word)
        };
        // Records of a few words, and one jump over more than a window, as padding makes it.
        let mut window = Window::<Hardware>::new(c, file, SEGMENT_BYTES).expect("memory");
        let (total, mut at) = ((SEGMENT_BYTES / 8) as usize, 512);
        while at < total {
            let words = window.words_from(c, &mut queue, at).expect("it is read");
            assert!(words.len() >= AHEAD.min(total - at), "{} words from {at}", words.len());
            for (ahead, word) in words.iter().enumerate().step_by(509) {
                assert_eq!(*word, expected(at + ahead), "word {}", at + ahead);
            }
            assert!(window.words.len() <= AHEAD + READ_BYTES / 8 + BLOCK_BYTES / 8);
            at += if at < 2_000 {
                101
            } else if at < 3_000 {
                200_000
            } else {
                7_919
            };
        }
        assert!(window.words_from(c, &mut queue, total).expect("it is read").is_empty());
        drop((window, queue, directory));
        _ = std::fs::remove_dir_all(&path);
    }
}
