//! Positions in the changes of a database.

use std::str::FromStr;

use boundary::LogPosition;

use crate::error::{Error, Result};

/// Beginning of an encoded position: the kind, and its version.
const MAGIC: [u8; 4] = *b"ICP1";
/// Length of an encoded position.
const BYTES: usize = 32;

/// A place in the changes of a database, behind a commit. Store it beside whatever the changes are
/// applied to, and resume from it with [`ChangesFrom::Position`], also after a restart or a crash.
/// [`Changes`](crate::Changes) has an example.
///
/// The position is bound to the database: a copy of the directory that went on for itself, or
/// another database, refuses it or reports that its changes are lost. [`std::fmt::Display`] and
/// [`FromStr`] convert it to text and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangePosition {
    database: u64,
    generation: u64,
    stamp: u64,
}

impl ChangePosition {
    pub(crate) fn of(position: LogPosition) -> Self {
        let LogPosition { database, generation, stamp } = position;
        ChangePosition { database, generation, stamp }
    }

    pub(crate) fn inner(self) -> LogPosition {
        let ChangePosition { database, generation, stamp } = self;
        LogPosition { database, generation, stamp }
    }

    /// Returns true if this position is `other`, or a later one of the same database.
    pub(crate) fn is_behind(self, other: ChangePosition) -> bool {
        self.stamp >= other.stamp
    }

    /// Returns the position as 32 bytes, to be stored.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.database.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..].copy_from_slice(&self.stamp.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns the position that [`Self::to_bytes`] has encoded.
    ///
    /// Errors: [`Error::Misuse`] if the bytes are no such position.
    ///
    /// [`Changes`](crate::Changes) has an example.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        const WRONG: Error = Error::Misuse("these bytes are no position in the changes of a database");
        let bytes: [u8; BYTES] = bytes.try_into().map_err(|_| WRONG)?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let position = ChangePosition { database: word(8), generation: word(16), stamp: word(24) };
        if position.to_bytes() == bytes { Ok(position) } else { Err(WRONG) }
    }
}

impl std::fmt::Display for ChangePosition {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(to, "{byte:02x}"))
    }
}

impl FromStr for ChangePosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.map(byte).collect();
        ChangePosition::from_bytes(&bytes.unwrap_or_default())
    }
}

/// Where a stream of changes begins: see [`Database::changes`](crate::Database::changes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangesFrom {
    /// Behind all commits so far.
    Now,
    /// With the oldest commit whose changes are still there.
    Oldest,
    /// Behind this position.
    Position(ChangePosition),
    /// Behind the position that the reader of this name has acknowledged.
    Reader(String),
}

impl From<ChangePosition> for ChangesFrom {
    fn from(position: ChangePosition) -> Self {
        ChangesFrom::Position(position)
    }
}

impl ChangesFrom {
    pub(crate) fn into_inner(self) -> boundary::ChangesFrom {
        match self {
            ChangesFrom::Now => boundary::ChangesFrom::Now,
            ChangesFrom::Oldest => boundary::ChangesFrom::Oldest,
            ChangesFrom::Position(position) => boundary::ChangesFrom::Position(position.inner()),
            ChangesFrom::Reader(name) => boundary::ChangesFrom::Reader(name),
        }
    }
}
