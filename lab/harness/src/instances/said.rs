//! Messages between the command and the process of an instance, through the pipes that are the
//! process's standard input and output: messages in postcard, each behind its length, and rows as
//! they are.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use distributed::Undecided;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::control::Sample;
use crate::error::OtherData;
use crate::measurement::memory_figures::MemoryTaken;
use crate::measurement::values::Recovery;
use crate::workers::membership::Found;
use crate::workers::opening::LogGrowth;
use crate::workers::worker::WorkerResult;

/// Longest message. Results of a worker, the longest, have some 100 KB.
const BYTES_MAX: usize = 1 << 28;
/// Length and kind of what follows.
const HEAD_BYTES: usize = 5;

/// The task of an instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The deployment, as its file.
    pub deployment: String,
    /// Which of its instances this is.
    pub instance: usize,
    /// A number that no other deployment has that runs at the time.
    pub number: u64,
    /// The directory in which processes of this machine meet, which the process removes if the
    /// command ends without having done so.
    pub directory: PathBuf,
    /// Where others reach this instance, where they may be on other machines.
    pub address: Option<SocketAddr>,
    /// The directory of the instance's database; `None` if it is not durable, or chooses a
    /// temporary one.
    pub database: Option<PathBuf>,
    /// A directory that the process removes if the command ends, for nothing in it is to stay: that
    /// of the database is below it.
    pub temporary: Option<PathBuf>,
    /// True if the others run on without it if it ends, and it comes back to them.
    pub outlived: bool,
    /// True if it comes back now.
    pub returns: bool,
    /// [`plan_fingerprint`] of the command's plan.
    pub plan: u32,
}

/// A message of the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first of all.
    Begin(Task),
    /// Load. If the deployment is durable it has this number from now on.
    Load(u64),
    /// End the parts in doubt, of which these commit, in the order in which they were told.
    Finish(Vec<bool>),
    /// All parts have ended everywhere: forget the decisions.
    Forget,
    /// Connect with the others, which can be reached at these endpoints.
    Connect(Vec<String>),
    /// By one that comes back: what is in doubt is resolved with the others, while they run.
    Return,
    /// Connect with an instance that comes back, which can be reached at this endpoint.
    Meet { instance: usize, endpoint: String },
    /// Wait no longer for an instance that is missing.
    GiveUp,
    /// Let the workers run.
    Run,
    /// End loading, or the run.
    Stop,
    /// Send the rows of a table with keys in a range of an index.
    Rows { table: usize, index: usize, low: Vec<u64>, high: Vec<u64> },
    /// Send the rows of a table with these keys in an index, each behind the number of its key.
    Row { table: usize, index: usize, keys: Vec<Vec<u64>> },
    /// The last of all: end.
    End,
    /// You are none of these instances, and why.
    Refuse(String),
    /// Nothing: said so often that whoever does not take it is known to be gone.
    Alive,
}

/// A message of an instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// By an instance that was not started by the command: who it is, and
    /// [`crate::RunFile::fingerprint`] of its file.
    Here { version: u32, instance: usize, file: u32 },
    /// Its database is open: what it took if there were data, whose it is, and what was under way
    /// when it went down.
    Opened { recovered: Option<Recovery>, found: Found, undecided: Undecided },
    /// Its parts in doubt have ended durably.
    Finished,
    /// So many rows are loaded.
    Loaded(u64),
    /// All are: how many, in how many seconds, and where others can reach this one.
    Ready { rows: u64, seconds: f64, endpoint: String },
    /// Its workers have links to all others.
    Connected,
    /// How the run goes.
    Goes(Sample),
    /// Results of its workers by their numbers, the memory they took, and the work of its log.
    Ran { results: Vec<WorkerResult>, memory: MemoryTaken, log: Option<LogGrowth> },
    /// It ends, and why; `gone`: because another one did; `other_data`: because its directory does
    /// not fit.
    Failed { why: String, gone: bool, other_data: Option<OtherData> },
}

/// The content of a pipe.
#[derive(Debug)]
pub(crate) enum Heard<M> {
    /// A message.
    Said(M),
    /// Rows.
    Rows(Rows),
}

/// A batch of rows: words and tails behind their lengths.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    /// True if these are the last that were asked for.
    pub is_last: bool,
}

/// The fingerprint of a plan: two processes have the same one, as far as 32 bits can tell.
pub(crate) fn plan_fingerprint(plan: &crate::plan::Plan) -> u32 {
    distributed::messages::fingerprint(std::iter::once(plan))
}

impl Rows {
    pub(crate) fn push(&mut self, words: &[u64], tail: &[u8]) {
        for length in [words.len(), tail.len()] {
            self.bytes.extend((length as u32).to_le_bytes());
        }
        words.iter().for_each(|word| self.bytes.extend(word.to_le_bytes()));
        self.bytes.extend(tail);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Visits all of them; `None` if they are none.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&[u64], &[u8])) -> Option<()> {
        let (mut rest, mut words) = (&self.bytes[..], Vec::new());
        while !rest.is_empty() {
            let mut length = || -> Option<usize> {
                let (length, behind) = rest.split_first_chunk()?;
                rest = behind;
                Some(u32::from_le_bytes(*length) as usize)
            };
            let (count, tail) = (length()?, length()?);
            let (row, behind) = rest.split_at_checked(count.checked_mul(size_of::<u64>())?)?;
            words.clear();
            let (whole, _) = row.as_chunks();
            words.extend(whole.iter().map(|word| u64::from_le_bytes(*word)));
            let (tail, behind) = behind.split_at_checked(tail)?;
            visit(&words, tail);
            rest = behind;
        }
        Some(())
    }
}

/// Says something.
pub(crate) fn say<M: Serialize>(to: &mut impl Write, message: &M) -> io::Result<()> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes = postcard::to_extend(message, bytes).map_err(io::Error::other)?;
    let length = (bytes.len() - HEAD_BYTES) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)?;
    to.flush()
}

/// Sends rows.
pub(crate) fn send(to: &mut impl Write, rows: &Rows) -> io::Result<()> {
    let mut whole = Vec::with_capacity(HEAD_BYTES + rows.bytes.len());
    whole.extend((rows.bytes.len() as u32).to_le_bytes());
    whole.push(if rows.is_last { 2 } else { 1 });
    whole.extend(&rows.bytes);
    to.write_all(&whole)?;
    to.flush()
}

/// The next message or rows; `None` if there will be none any more.
pub(crate) fn hear<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<Heard<M>>> {
    hear_at_most(from, BYTES_MAX)
}

/// As [`hear`], of somebody who may be a stranger, and who is heard for so many bytes.
pub(crate) fn hear_at_most<M: DeserializeOwned>(
    from: &mut impl Read,
    bytes_max: usize,
) -> io::Result<Option<Heard<M>>> {
    let damaged = || io::Error::new(ErrorKind::InvalidData, "what came is no message of an instance");
    let mut head = [0; HEAD_BYTES];
    match from.read_exact(&mut head) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [a, b, c, d, kind] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > bytes_max {
        return Err(damaged());
    }
    let mut bytes = Vec::new();
    if from.take(length as u64).read_to_end(&mut bytes)? < length {
        return Ok(None);
    }
    match kind {
        0 => postcard::from_bytes(&bytes).map(|message| Some(Heard::Said(message))).map_err(|_| damaged()),
        1 | 2 => Ok(Some(Heard::Rows(Rows { bytes, is_last: kind == 2 }))),
        _ => Err(damaged()),
    }
}
