//! Messages between the command and the process of an instance, through the pipes that are the
//! process's standard input and output: messages in postcard, each preceded by its length, and
//! unencoded rows.

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

/// Longest message. The results of a worker, which are the longest messages, have some 100 KB.
const BYTES_MAX: usize = 1 << 28;
/// Bytes of the header: length and kind.
const HEAD_BYTES: usize = 5;

/// The task of an instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The deployment, as its file.
    pub deployment: String,
    /// The number of the instance.
    pub instance: usize,
    /// A number that is unique among the deployments that run.
    pub number: u64,
    /// The directory for the endpoints of the processes on this machine, which the process removes
    /// if the command ends without removing it.
    pub directory: PathBuf,
    /// The address of this instance, if the others may be on other machines.
    pub address: Option<SocketAddr>,
    /// The directory of the instance's database; `None` if it is not durable, or chooses a
    /// temporary one.
    pub database: Option<PathBuf>,
    /// The temporary directory that contains the database's directory, which the process removes if
    /// the command ends.
    pub temporary: Option<PathBuf>,
    /// True if the other instances continue if this one ends, and it can come back to them.
    pub outlived: bool,
    /// True if the instance comes back now.
    pub returns: bool,
    /// [`plan_fingerprint`] of the command's plan.
    pub plan: u32,
}

/// A message of the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first order.
    Begin(Task),
    /// Load. If the deployment is durable this is its number from now on.
    Load(u64),
    /// Finish the branches in doubt: true for those that commit, in the order in which they were
    /// reported.
    Finish(Vec<bool>),
    /// Forget the decisions, because all branches have finished everywhere.
    Forget,
    /// Connect to the other instances, which listen at these endpoints.
    Connect(Vec<String>),
    /// Come back: resolve the transactions in doubt with the other instances, while they run.
    Return,
    /// Connect to an instance that comes back, which listens at this endpoint.
    ConnectReturned { instance: usize, endpoint: String },
    /// Stop waiting for a missing instance.
    GiveUp,
    /// Let the workers run.
    Run,
    /// End loading, or the run.
    Stop,
    /// Send the rows of a table with keys in a range of an index.
    Rows { table: usize, index: usize, low: Vec<u64>, high: Vec<u64> },
    /// Send the rows of a table with these keys in an index, each preceded by the number of its
    /// key.
    Row { table: usize, index: usize, keys: Vec<Vec<u64>> },
    /// The last order: end.
    End,
    /// This process is refused, for this reason.
    Refuse(String),
    /// No order: a keep-alive message, so that broken connections are detected.
    KeepAlive,
}

/// A message of an instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The introduction of an instance that was not started by the command, with
    /// [`crate::RunFile::fingerprint`] of its file.
    Introduction { version: u32, instance: usize, file: u32 },
    /// The database is open: the cost of recovery if there were data, its membership, and its
    /// transactions in doubt.
    Opened { recovered: Option<Recovery>, found: Found, undecided: Undecided },
    /// The branches in doubt have finished durably.
    Finished,
    /// This many rows are loaded so far.
    Loaded(u64),
    /// All rows are loaded: their number, the time that took, and the endpoint at which this
    /// instance listens.
    Ready { rows: u64, seconds: f64, endpoint: String },
    /// Its workers have links to those of all other instances.
    Connected,
    /// Progress of the run.
    Progress(Sample),
    /// Results of its workers by their numbers, the memory they took, and the work of its log.
    Ran { results: Vec<WorkerResult>, memory: MemoryTaken, log: Option<LogGrowth> },
    /// The instance ends, for this reason; `gone`: because another instance ended; `other_data`:
    /// because its directory contains other data.
    Failed { why: String, gone: bool, other_data: Option<OtherData> },
}

/// The content of a pipe.
#[derive(Debug)]
pub(crate) enum Received<M> {
    /// A message.
    Message(M),
    /// Rows.
    Rows(Rows),
}

/// A batch of rows: words and tails, preceded by their lengths.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    /// True if these are the last of the requested rows.
    pub is_last: bool,
}

/// The fingerprint of a plan: plans that differ have other fingerprints, up to collisions of 32
/// bits.
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

    /// Visits all rows; returns `None` if the bytes are invalid.
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

/// Sends a message.
pub(crate) fn send<M: Serialize>(to: &mut impl Write, message: &M) -> io::Result<()> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes = postcard::to_extend(message, bytes).map_err(io::Error::other)?;
    let length = (bytes.len() - HEAD_BYTES) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)?;
    to.flush()
}

/// Sends rows.
pub(crate) fn send_rows(to: &mut impl Write, rows: &Rows) -> io::Result<()> {
    let mut whole = Vec::with_capacity(HEAD_BYTES + rows.bytes.len());
    whole.extend((rows.bytes.len() as u32).to_le_bytes());
    whole.push(if rows.is_last { 2 } else { 1 });
    whole.extend(&rows.bytes);
    to.write_all(&whole)?;
    to.flush()
}

/// Receives the next message or rows; `None` if the stream has ended.
pub(crate) fn receive<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<Received<M>>> {
    receive_at_most(from, BYTES_MAX)
}

/// As [`receive`], with a bound on the length, for messages of a process that may be a stranger.
pub(crate) fn receive_at_most<M: DeserializeOwned>(
    from: &mut impl Read,
    bytes_max: usize,
) -> io::Result<Option<Received<M>>> {
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
        0 => postcard::from_bytes(&bytes)
            .map(|message| Some(Received::Message(message)))
            .map_err(|_| damaged()),
        1 | 2 => Ok(Some(Received::Rows(Rows { bytes, is_last: kind == 2 }))),
        _ => Err(damaged()),
    }
}
