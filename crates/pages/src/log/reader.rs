//! Reading of the log at a restart: the segments of a directory, and the records in them, up to the
//! end of the last whole record.

use platform::files::{Access, BLOCK_BYTES, Buffer, Existence, Files, Operation};
use redo_log::LogError;

use super::record::{self, FoundRecord, Logged, RecordPlace};
use super::segments::{self, Header, SegmentNames};
use super::window::{AHEAD, Window};
use crate::error::PagedError;
use crate::files::life::Life;
use crate::lsn::Lsn;

/// The segments that a directory has.
pub(crate) struct LogFiles {
    /// The segments with whole headers, ascending.
    segments: Vec<Header>,
    /// Names of those without: the machine has stopped while they were made.
    torn: Vec<String>,
}

/// The point at which reading begins, as the last checkpoint says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadingStart {
    /// Identity of the database.
    pub identity: u64,
    /// The name of the life that has made the checkpoint: it has written what lies here.
    pub life: u64,
    pub low: Lsn,
    /// The log was on disk up to here.
    pub durable: Lsn,
}

/// The end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogTail {
    pub lsn: Lsn,
    /// Bytes of records that were read.
    pub bytes: u64,
    /// The life that it was written in.
    pub life: u64,
    /// The lives that have begun since the checkpoint.
    pub lives: Vec<Life>,
    /// Up to here something lies behind it that is no record.
    torn: Lsn,
    /// The first byte of the segment that it lies in.
    segment: Lsn,
}

impl LogTail {
    /// The end of a log without records.
    pub(crate) const NONE: LogTail =
        LogTail { lsn: Lsn(0), bytes: 0, life: 0, lives: Vec::new(), torn: Lsn(0), segment: Lsn(0) };

    /// Returns true if something other than a record lies behind it.
    pub(crate) fn is_torn(&self) -> bool {
        self.torn > self.lsn
    }
}

/// The reason why the records of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    /// It is full of them.
    Full,
    /// The next life continues from here.
    Continued,
    /// Nothing is here that was written as a whole.
    Nothing,
}

const MISSING_RECORD: &str = "a record is missing";
const OTHER_LIFE: &str =
    "the file belongs to another life of the database, or to a copy of it that has gone on for itself";

impl LogFiles {
    /// Finds all segments.
    ///
    /// # Errors
    /// One of them was cut, or has lost its head; or they cannot be read.
    pub(crate) fn find<P: Files>(c: P::Core, queue: &mut P::Queue) -> Result<Self, PagedError> {
        let entries = P::perform(c, queue, Operation::List).into_entries()?;
        let (mut found, mut torn, mut unmade) = (Vec::new(), Vec::new(), Vec::new());
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
                // The file had its length before it had a header.
                Some(header) if header.file_bytes != entry.bytes => {
                    let end = Lsn(first.0.saturating_add(entry.bytes));
                    return Err(damaged(first, end, "the file ends here, and was made with another length"));
                }
                Some(header) => found.push(header),
                None if is_begun::<P>(c, queue, first, entry.bytes)? => {
                    return Err(damaged(first, first, "the head of the file is damaged"));
                }
                None => unmade.push(first),
            }
        }
        found.sort_by_key(|header| header.first);
        let files = LogFiles { segments: found, torn: Vec::new() };
        if let Some(first) = unmade.iter().find(|first| !files.ends_life(**first)) {
            return Err(damaged(*first, *first, "the file has lost what was in it"));
        }
        torn.extend(unmade.into_iter().map(segments::name));
        Ok(LogFiles { torn, ..files })
    }

    /// Returns true if a segment that has lost its head may be one that a generation made ahead
    /// when it ended: segments are made in order, so the next one, if there is any, is the first of
    /// another generation.
    fn ends_life(&self, first: Lsn) -> bool {
        let (before, behind) =
            self.segments.split_at(self.segments.partition_point(|other| other.first < first));
        behind.first().is_none_or(|next| {
            let follows = before.last().is_some_and(|last| last.names.life == next.names.follows);
            follows && next.continues != Lsn(0)
        })
    }

    /// Returns true if there is no segment, or only one in which nothing was ever written: that of
    /// a database that was never made as a whole.
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

    /// The first byte behind all segments, at a multiple of `segment_bytes` bytes.
    pub(crate) fn behind(&self, segment_bytes: u64) -> Lsn {
        let end = self.segments.last().map_or(0, Header::end);
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

    /// Visits all records from where the last checkpoint says on, in order: where each ends, and
    /// what it says.
    ///
    /// # Errors
    /// The log is damaged in front of its end, or ends before what the checkpoint knows, or has
    /// files of another database or of another life, or cannot be read; or `visit` fails.
    pub(crate) fn read<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        start: ReadingStart,
        visit: &mut dyn FnMut(Lsn, Logged<'_>) -> Result<(), PagedError>,
    ) -> Result<LogTail, PagedError> {
        let ReadingStart { identity, life, low, durable } = start;
        if let Some(other) = self.segments.iter().find(|header| header.names.identity != identity) {
            return Err(damaged(other.first, other.first, "the file belongs to another database"));
        }
        // A checkpoint may begin where a segment ends, behind which none was made.
        let has = |header: &&Header| header.first <= low && low.0 <= header.end();
        let Some(mut current) = self.segments.iter().rev().find(has).copied() else {
            return Err(damaged(low, low, "the segment that the last checkpoint names is missing"));
        };
        if current.names.life != life {
            return Err(damaged(current.first, low, OTHER_LIFE));
        }
        let mut tail = LogTail { lsn: low, life, segment: current.first, ..LogTail::NONE };
        loop {
            let ended = self.read_segment::<P>(c, queue, current, &mut tail, visit)?;
            let Some(next) = self.after::<P>(c, queue, current, ended, tail.lsn)? else { break };
            if next.names.life != current.names.life {
                let Header { names, continues, first, .. } = next;
                tail.lives.push(Life { name: names.life, continues, begins: first });
            }
            current = next;
            // A segment begins with its header.
            tail.lsn = Lsn(current.first.0 + BLOCK_BYTES as u64);
            (tail.segment, tail.life) = (current.first, current.names.life);
        }
        if tail.lsn < durable {
            let what = "the log ends here, and the last checkpoint knows of more";
            return Err(damaged(tail.segment, tail.lsn, what));
        }
        Ok(tail)
    }

    /// The segment that continues one whose records have ended so; none: the log ends here.
    fn after<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        current: Header,
        ended: EndReason,
        end: Lsn,
    ) -> Result<Option<Header>, PagedError> {
        let missing = |what| damaged(current.first, end, what);
        let mut behind = self.segments.iter().filter(|header| header.first > current.first);
        match ended {
            EndReason::Continued => self.next_life(current),
            EndReason::Full => {
                let next = behind.next().filter(|next| next.first.0 == current.end());
                let next = next.ok_or_else(|| {
                    missing("the segment behind it is missing, which was there before it was full")
                })?;
                if next.names == current.names {
                    Ok(Some(*next))
                } else {
                    Err(damaged(next.first, next.first, OTHER_LIFE))
                }
            }
            EndReason::Nothing => {
                for next in behind {
                    if next.names != current.names || is_begun::<P>(c, queue, next.first, next.segment_bytes)?
                    {
                        return Err(missing(MISSING_RECORD));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Makes durable what was read. The life that wrote it may have failed to, and the operating
    /// system may have it in memory only, and count it as written: so the segment of the last
    /// record is written anew under another name, and takes its own place. All segments before were
    /// durable when that record was written; one behind it was only made ahead. What lies behind
    /// the end stays as it is, as long as it is not known whether the database opens.
    pub(crate) fn keep<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        tail: &LogTail,
    ) -> Result<(), PagedError> {
        let Some(place) = self.segments.iter().position(|header| header.first == tail.segment) else {
            return Ok(());
        };
        let (last, before) = (&self.segments[place], place.checked_sub(1).map(|place| &self.segments[place]));
        let is_empty = tail.lsn.0 <= last.first.0 + BLOCK_BYTES as u64;
        let before = before.filter(|before| is_empty && before.names == last.names);
        let segment = before.unwrap_or(last);
        let mut window = window_of::<P>(c, queue, *segment)?;
        let end = ((tail.lsn.max(tail.torn).0.min(segment.end()) - segment.first.0) / 8) as usize;
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
        // As long as it was.
        let last = segment.file_bytes - BLOCK_BYTES as u64;
        if (end * 8) as u64 <= last {
            buffer.set_len(0);
            buffer.append(c, &[0; BLOCK_BYTES]);
            let write = Operation::Write { file: file.clone(), offset: last, buffers: vec![buffer] };
            P::perform(c, queue, write).result?;
        }
        P::perform(c, queue, Operation::Flush { file }).result?;
        // An opening before may have left another file of this name: then that one must not get the
        // segment's.
        P::perform(c, queue, Operation::FlushDirectory).result?;
        let to = segments::name(segment.first);
        P::perform(c, queue, Operation::Rename { from: name, to }).result?;
        P::perform(c, queue, Operation::FlushDirectory).result?;
        Ok(())
    }

    /// The first segment of the next life, which continues this one.
    fn next_life(&self, current: Header) -> Result<Option<Header>, PagedError> {
        let is_other =
            |header: &&Header| header.first > current.first && header.names.life != current.names.life;
        let Some(next) = self.segments.iter().find(is_other) else { return Ok(None) };
        if next.names.follows != current.names.life || next.continues == Lsn(0) {
            return Err(damaged(next.first, next.first, OTHER_LIFE));
        }
        Ok(Some(*next))
    }

    /// Visits the records of a segment; why they end.
    fn read_segment<P: Files>(
        &self,
        c: P::Core,
        queue: &mut P::Queue,
        segment: Header,
        tail: &mut LogTail,
        visit: &mut dyn FnMut(Lsn, Logged<'_>) -> Result<(), PagedError>,
    ) -> Result<EndReason, PagedError> {
        let (first, life) = (segment.first, segment.names.life);
        let mut window = window_of::<P>(c, queue, segment)?;
        let until = self.next_life(segment)?.map(|next| next.continues);
        tail.lsn = tail.lsn.max(Lsn(first.0 + BLOCK_BYTES as u64));
        while tail.lsn.0 < segment.end() {
            if until.is_some_and(|until| tail.lsn >= until) {
                return Ok(EndReason::Continued);
            }
            let at = ((tail.lsn.0 - first.0) / 8) as usize;
            let rest = window.rest(at);
            let words = window.words_from(c, queue, at)?;
            let place = RecordPlace { life, lsn: tail.lsn };
            let Some(FoundRecord { words, count }) = record::find(words, rest, place) else {
                tail.torn = torn_until::<P>(c, queue, &mut window, at, segment, tail.lsn)?;
                return Ok(EndReason::Nothing);
            };
            let Some(logged) = record::decode(words) else {
                return Err(damaged(first, tail.lsn, "a record that this version does not know"));
            };
            tail.lsn = Lsn(tail.lsn.0 + count as u64 * 8);
            if !matches!(logged, Logged::Padding | Logged::Group(_)) {
                tail.bytes += count as u64 * 8;
                visit(tail.lsn, logged)?;
            }
        }
        Ok(EndReason::Full)
    }
}

/// Up to where something lies at this word and behind it, where the log has ended when the machine
/// stopped.
///
/// # Errors
/// What should be a record here was on disk as a whole once: a group that is there was begun after
/// that, or something lies behind the group that the record belongs to.
fn torn_until<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    window: &mut Window<P>,
    mut at: usize,
    segment: Header,
    lsn: Lsn,
) -> Result<Lsn, PagedError> {
    let (begin, mut remains) = (at, SegmentRest::behind(segment.names.life, lsn));
    while window.rest(at) > 0 {
        let rest = window.rest(at);
        let words = window.words_from(c, queue, at)?;
        remains.add(words, rest, Lsn(lsn.0 + (at - begin) as u64 * 8));
        if remains.were_durable() {
            return Err(damaged(segment.first, lsn, "a record is damaged, and was on disk as a whole once"));
        }
        // The last word may be the first one of a mark.
        at += if words.len() < rest { words.len() - 1 } else { rest };
    }
    Ok(remains.until)
}

/// The bytes at the end of a segment's records, and behind it.
struct SegmentRest {
    life: u64,
    /// End of the records.
    lsn: Lsn,
    /// Up to here something is there.
    until: Lsn,
    /// The first group that has its mark there ends here.
    group: Option<Lsn>,
    /// A group that was begun behind the end has its mark there.
    is_begun_behind: bool,
}

impl SegmentRest {
    fn behind(life: u64, lsn: Lsn) -> Self {
        SegmentRest { life, lsn, until: lsn, group: None, is_begun_behind: false }
    }

    /// Examines words at `here`, of which `rest` are there up to the segment's end. Places ascend
    /// from call to call.
    fn add(&mut self, words: &[u64], rest: usize, here: Lsn) {
        let lies = |at: usize| Lsn(here.0 + at as u64 * 8);
        if let Some(last) = words.iter().rposition(|word| *word != 0) {
            self.until = lies(last + 1);
        }
        for at in (0..words.len()).filter(|at| record::may_be_group(words[*at])) {
            let place = RecordPlace { life: self.life, lsn: lies(at) };
            if let Some(found) = record::find(&words[at..], rest - at, place)
                && let Some(Logged::Group(begins)) = record::decode(found.words)
            {
                self.group.get_or_insert(lies(at + found.count));
                self.is_begun_behind |= begins > self.lsn;
            }
        }
    }

    /// Returns true if the damaged record at the end of the others was once on disk as a whole. A
    /// group is on disk before anything is written behind it.
    fn were_durable(&self) -> bool {
        self.is_begun_behind || self.group.is_some_and(|ends| self.until > ends)
    }
}

/// The whole records of a segment that may be written meanwhile.
pub(crate) struct WholeRecords {
    /// Bytes up to the end of the last record, in whole blocks.
    pub bytes: usize,
    /// Fields of its header.
    pub header: Header,
    /// True if the bytes that follow are damaged.
    pub is_damaged: bool,
    /// Nothing follows in this segment.
    pub is_full: bool,
}

/// The whole records of a segment; `None` if its header is none.
pub(crate) fn whole(segment: &[u8], first: Lsn) -> Option<WholeRecords> {
    let header = Header::decode(segment).filter(|header| header.first == first)?;
    let life = header.names.life;
    let words: Vec<u64> = segment.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
    let mut at = BLOCK_BYTES / 8;
    let place = |at: usize| RecordPlace { life, lsn: Lsn(first.0 + at as u64 * 8) };
    let next = |at: usize| words.get(at..).and_then(|words| record::find(words, words.len(), place(at)));
    while let Some(found) = next(at) {
        at += found.count;
    }
    let rest = words.get(at..).unwrap_or_default();
    let lsn = Lsn(first.0 + at as u64 * 8);
    let mut remains = SegmentRest::behind(life, lsn);
    remains.add(rest, rest.len(), lsn);
    let bytes = (at * 8).next_multiple_of(BLOCK_BYTES).min(segment.len());
    Some(WholeRecords {
        bytes,
        header,
        is_damaged: remains.were_durable(),
        is_full: (at * 8) as u64 >= header.segment_bytes,
    })
}

fn open<P: Files>(c: P::Core, queue: &mut P::Queue, name: &str) -> Result<P::File, PagedError> {
    let open = Operation::Open { name: name.to_owned(), existence: Existence::Old, access: Access::Direct };
    Ok(P::perform(c, queue, open).into_file()?)
}

/// Returns true if something was written behind the header of a segment of `bytes` bytes; the
/// header is on disk by then.
fn is_begun<P: Files>(c: P::Core, queue: &mut P::Queue, first: Lsn, bytes: u64) -> Result<bool, PagedError> {
    let segment_bytes = bytes.next_multiple_of(BLOCK_BYTES as u64);
    let (names, continues) = (SegmentNames::default(), Lsn(0));
    let header = Header { names, generation: 0, first, continues, segment_bytes, file_bytes: bytes };
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
