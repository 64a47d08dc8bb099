//! What a restart finds: the segments of a directory, and the records in them, up to the end of what was written as a whole.

use platform::files::{Access, BLOCK_BYTES, Buffer, Existence, Files, Operation};
use storage::log::LogError;

use super::record::{self, Logged};
use super::segments::{self, Header};
use super::window::{AHEAD, Window};
use crate::lsn::Lsn;
use crate::options::PagedError;

/// The segments that a directory has.
pub(crate) struct LogFiles {
    /// Those with whole headers, ascending.
    segments: Vec<Header>,
    /// Names of those without: the machine has stopped while they were made.
    torn: Vec<String>,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub lsn: Lsn,
    /// Bytes of records that were read.
    pub bytes: u64,
    /// The first byte of the segment that it lies in.
    segment: Lsn,
}

impl Tail {
    /// That of a log that has nothing yet.
    pub(crate) const NONE: Tail = Tail { lsn: Lsn(0), bytes: 0, segment: Lsn(0) };
}

impl LogFiles {
    /// Finds all segments.
    pub(crate) fn find<P: Files>(c: P::Core, queue: &mut P::Queue) -> Result<Self, PagedError> {
        let entries = P::perform(c, queue, Operation::List).into_entries()?;
        let (mut found, mut torn) = (Vec::new(), Vec::new());
        for entry in entries {
            if entry.name == segments::NEW_NAME {
                torn.push(entry.name);
                continue;
            }
            let Some(first) = segments::parse(&entry.name) else { continue };
            let file = open::<P>(c, queue, &entry.name)?;
            let buffer = Buffer::new(c, None, BLOCK_BYTES, "header of a segment")?;
            let mut completion = P::perform(c, queue, Operation::Read { file, offset: 0, buffer });
            let bytes = completion.bytes()? as usize;
            let header = completion.buffers.pop().and_then(|mut buffer| {
                buffer.set_len(bytes.min(buffer.capacity()));
                Header::decode(buffer.bytes())
            });
            match header.filter(|header| header.first == first) {
                Some(header) => found.push(header),
                None if is_begun::<P>(c, queue, first, entry.bytes)? => {
                    return Err(damaged(first, first, "the head of the file is damaged"));
                }
                None => torn.push(entry.name),
            }
        }
        found.sort_by_key(|header| header.first);
        Ok(LogFiles { segments: found, torn })
    }

    /// Whether there is none, or only one in which nothing was ever written: that of a database that was never made as a whole.
    pub(crate) fn has_nothing<P: Files>(&self, c: P::Core, queue: &mut P::Queue) -> Result<bool, PagedError> {
        match self.segments[..] {
            [] => Ok(true),
            [Header { first: Lsn(0), segment_bytes, .. }] => {
                Ok(!is_begun::<P>(c, queue, Lsn(0), segment_bytes)?)
            }
            _ => Ok(false),
        }
    }

    /// A generation that no segment has.
    pub(crate) fn next_generation(&self) -> u64 {
        self.segments.iter().map(|header| header.generation).max().unwrap_or(0) + 1
    }

    /// The first byte behind all segments, as a beginning of one of so many bytes.
    pub(crate) fn behind(&self, segment_bytes: u64) -> Lsn {
        let end = self.segments.last().map_or(0, |header| header.first.0 + header.segment_bytes);
        Lsn(end.next_multiple_of(segment_bytes))
    }

    /// Names of all segments of generations before `generation`.
    pub(crate) fn names_before(&self, generation: u64) -> Vec<String> {
        let old = self.segments.iter().filter(|header| header.generation < generation);
        old.map(|header| segments::name(header.first)).collect()
    }

    /// Names of segments that were never made as a whole.
    pub(crate) fn torn(&self) -> &[String] {
        &self.torn
    }

    /// Visits all records from this place on, in order: where each ends, and what it says.
    ///
    /// # Errors
    /// The log is damaged in front of its end, or ends before `durable`, or cannot be read; or `visit` fails.
    pub(crate) fn read<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        (from, durable): (Lsn, Lsn),
        visit: &mut dyn FnMut(Lsn, Logged<'_>) -> Result<(), PagedError>,
    ) -> Result<Tail, PagedError> {
        // A checkpoint may begin where a segment ends, behind which none was made.
        let has = |header: &&Header| header.first <= from && from.0 <= header.first.0 + header.segment_bytes;
        let Some(mut current) = self.segments.iter().rev().find(has).copied() else {
            return Err(damaged(from, from, "the segment that the last checkpoint names is missing"));
        };
        let mut tail = Tail { lsn: from, bytes: 0, segment: current.first };
        loop {
            let ended = self.read_segment::<P>(c, queue, current, &mut tail, visit)?;
            let next = self.segments.iter().find(|header| header.first > current.first).copied();
            current = match (next, self.generation_after(current)) {
                (_, Some(later)) if later.continues == tail.lsn => later,
                (_, Some(_)) => return Err(damaged(current.first, tail.lsn, "a record is missing")),
                (Some(next), None) if ended && next.generation == current.generation => next,
                (Some(_), None) => return Err(damaged(current.first, tail.lsn, "a record is missing")),
                (None, None) if tail.lsn < durable => {
                    return Err(damaged(
                        current.first,
                        tail.lsn,
                        "the log ends here, and the last checkpoint knows of more",
                    ));
                }
                (None, None) => return Ok(tail),
            };
            // A segment begins with its header.
            tail.lsn = Lsn(current.first.0 + BLOCK_BYTES as u64);
            tail.segment = current.first;
        }
    }

    /// Makes durable what was read. The life that wrote it may have failed to, and the operating system may have it in memory only, and
    /// count it as written: so the last segment is written anew under another name, and takes its own place. All segments before were
    /// durable when it was made.
    pub(crate) fn keep<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        tail: Tail,
    ) -> Result<(), PagedError> {
        let Some(segment) = self.segments.iter().find(|header| header.first == tail.segment) else {
            return Ok(());
        };
        let mut window = window_of::<P>(c, queue, *segment)?;
        let end = ((tail.lsn.0 - segment.first.0) / 8) as usize;
        let name = segments::NEW_NAME.to_owned();
        let open = Operation::Open { name: name.clone(), existence: Existence::New, access: Access::Direct };
        let file = P::perform(c, queue, open).into_file()?;
        let mut buffer = Buffer::new(c, None, AHEAD * 8, "log that is kept")?;
        for at in (0..end).step_by(AHEAD) {
            let words = &window.words_from(c, queue, at)?[..AHEAD.min(end - at)];
            buffer.set_len(0);
            buffer.append(c, bytemuck::cast_slice(words));
            buffer.pad(BLOCK_BYTES);
            let offset = (at * 8) as u64;
            let write = Operation::Write { file: file.clone(), offset, buffers: vec![buffer] };
            let completion = P::perform(c, queue, write);
            completion.result?;
            let Some(back) = completion.buffers.into_iter().next() else {
                return Err(LogError::File(stopped()).into());
            };
            buffer = back;
        }
        P::perform(c, queue, Operation::Flush { file }).result?;
        let to = segments::name(segment.first);
        P::perform(c, queue, Operation::Rename { from: name, to }).result?;
        P::perform(c, queue, Operation::FlushDirectory).result?;
        Ok(())
    }

    /// The first segment of the next generation.
    fn generation_after(&self, current: Header) -> Option<Header> {
        let mut later = self.segments.iter().filter(|header| header.first > current.first);
        let next =
            later.find(|header| header.generation == current.generation || header.continues != Lsn(0))?;
        // The same generation goes on: the next one begins behind that.
        (next.generation != current.generation).then_some(*next)
    }

    /// Visits the records of a segment; whether it is full of records.
    fn read_segment<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        segment: Header,
        tail: &mut Tail,
        visit: &mut dyn FnMut(Lsn, Logged<'_>) -> Result<(), PagedError>,
    ) -> Result<bool, PagedError> {
        let Header { first, generation, segment_bytes, .. } = segment;
        let mut window = window_of::<P>(c, queue, segment)?;
        let until = self.generation_after(segment).map(|next| next.continues);
        tail.lsn = tail.lsn.max(Lsn(first.0 + BLOCK_BYTES as u64));
        while tail.lsn.0 < first.0 + segment_bytes {
            if until.is_some_and(|until| tail.lsn >= until) {
                return Ok(false);
            }
            let at = ((tail.lsn.0 - first.0) / 8) as usize;
            let rest = window.rest(at);
            let words = window.words_from(c, queue, at)?;
            let Some((found, count)) = record::find(words, rest, (generation, tail.lsn)) else {
                if goes_on::<P>(c, queue, &mut window, at, (generation, tail.lsn))? {
                    return Err(damaged(
                        first,
                        tail.lsn,
                        "a record is damaged, and was on disk as a whole once",
                    ));
                }
                return Ok(false);
            };
            let Some(logged) = record::decode(found) else {
                return Err(damaged(first, tail.lsn, "a record that this version does not know"));
            };
            tail.lsn = Lsn(tail.lsn.0 + count as u64 * 8);
            if !matches!(logged, Logged::Padding | Logged::Group(_)) {
                tail.bytes += count as u64 * 8;
                visit(tail.lsn, logged)?;
            }
        }
        Ok(true)
    }
}

/// Whether what should be the record at this word was on disk once: a group that is there was begun after that. Otherwise the log has ended
/// here when the machine stopped.
fn goes_on<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    window: &mut Window<P>,
    mut at: usize,
    (generation, lsn): (u64, Lsn),
) -> Result<bool, PagedError> {
    let begin = at;
    while window.rest(at) > 0 {
        let rest = window.rest(at);
        let words = window.words_from(c, queue, at)?;
        let here = Lsn(lsn.0 + (at - begin) as u64 * 8);
        if has_group_behind(words, rest, (generation, here), lsn) {
            return Ok(true);
        }
        // The last word may be the first one of a mark.
        at += if words.len() < rest { words.len() - 1 } else { rest };
    }
    Ok(false)
}

/// Whether a group that was begun behind `lsn` has its mark among these words, which lie `here`; `rest` words are there up to the segment's end.
fn has_group_behind(words: &[u64], rest: usize, (generation, here): (u64, Lsn), lsn: Lsn) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        let place = (generation, Lsn(here.0 + at as u64 * 8));
        record::may_be_group(*word)
            && record::find(&words[at..], rest - at, place)
                .and_then(|(found, _)| record::decode(found))
                .is_some_and(|found| matches!(found, Logged::Group(begins) if begins > lsn))
    })
}

/// Up to where a segment has records that were written as a whole, in bytes of whole blocks, and whether what follows is damaged; `None` if its
/// header is none.
pub(crate) fn whole_bytes(segment: &[u8], first: Lsn) -> Option<(usize, bool)> {
    let header = Header::decode(segment).filter(|header| header.first == first)?;
    let words: Vec<u64> = segment.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
    let mut at = BLOCK_BYTES / 8;
    while let Some((_, count)) = words
        .get(at..)
        .and_then(|words| record::find(words, words.len(), (header.generation, Lsn(first.0 + at as u64 * 8))))
    {
        at += count;
    }
    let rest = words.get(at..).unwrap_or_default();
    let lsn = Lsn(first.0 + at as u64 * 8);
    let is_damaged = has_group_behind(rest, rest.len(), (header.generation, lsn), lsn);
    Some(((at * 8).next_multiple_of(BLOCK_BYTES).min(segment.len()), is_damaged))
}

fn open<P: Files>(c: P::Core, queue: &mut P::Queue, name: &str) -> Result<P::File, PagedError> {
    let open = Operation::Open { name: name.to_owned(), existence: Existence::Old, access: Access::Direct };
    Ok(P::perform(c, queue, open).into_file()?)
}

/// Whether something was written behind the header of a segment of so many bytes; the header is on disk by then.
fn is_begun<P: Files>(c: P::Core, queue: &mut P::Queue, first: Lsn, bytes: u64) -> Result<bool, PagedError> {
    let segment_bytes = bytes.next_multiple_of(BLOCK_BYTES as u64);
    let header = Header { generation: 0, first, continues: Lsn(0), segment_bytes };
    let mut window = window_of::<P>(c, queue, header)?;
    let mut at = BLOCK_BYTES / 8;
    while window.rest(at) > 0 {
        let words = window.words_from(c, queue, at)?;
        if words.iter().any(|word| *word != 0) {
            return Ok(true);
        }
        at += words.len();
    }
    Ok(false)
}

/// A segment from its beginning on.
fn window_of<P: Files>(c: P::Core, queue: &mut P::Queue, segment: Header) -> Result<Window<P>, PagedError> {
    let file = open::<P>(c, queue, &segments::name(segment.first))?;
    Window::new(c, file, segment.segment_bytes)
}

fn stopped() -> platform::files::FileError {
    platform::files::FileError::stopped()
}

fn damaged(segment: Lsn, at: Lsn, what: &'static str) -> PagedError {
    let offset = at.0.saturating_sub(segment.0);
    LogError::Damaged { file: segments::name(segment), offset, what }.into()
}
