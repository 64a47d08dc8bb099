//! The operations of an engine in this benchmark, and their rows.

use std::error::Error as StdError;

/// Rows of a transaction.
pub const ROWS_PER_TRANSACTION: usize = 10;
/// Bytes of a row without its key: a counter of 8 and a payload.
pub const VALUE_BYTES: usize = 8 + PAYLOAD_BYTES;
/// Rows of a scan.
pub const ROWS_PER_SCAN: usize = 100;
/// Rows that all clients change in the contended operation.
pub const CONTENDED_ROWS: u64 = 50;
/// Bytes of a row's payload: with key and counter a row has 248, as in the microbenchmark, or 100
/// for figures of memory.
pub const PAYLOAD_BYTES: usize = if cfg!(feature = "small-rows") { 84 } else { 232 };
/// The first key of rows that clients insert.
pub const FIRST_INSERTED: u64 = 1 << 48;
/// Rows of one transaction of the loader.
pub const ROWS_PER_LOAD: u64 = 5_000;

/// An error of an engine.
pub type Failure = Box<dyn StdError + Send + Sync>;

/// The keys of a transaction: distinct, in any order.
pub type Keys = [u64; ROWS_PER_TRANSACTION];

/// An open database of one engine, with one table.
///
/// Every transaction is serializable. Dropping the value closes the database; after it is opened
/// again, it contains all acknowledged changes.
pub trait Engine: Sync {
    /// Creates the table, and rows with the keys `0..rows` and counters of zero.
    ///
    /// # Errors
    /// An error of the engine.
    fn load(&self, rows: u64) -> Result<(), Failure>;

    /// Creates a client, for the calling thread.
    ///
    /// # Errors
    /// An error of the engine.
    fn client(&self, operation: Operation) -> Result<Box<dyn Client + '_>, Failure>;

    /// Reads the totals of the table, while no client runs.
    ///
    /// # Errors
    /// An error of the engine.
    fn total(&self) -> Result<Total, Failure>;
}

/// One client: it waits for each transaction before it begins the next.
pub trait Client {
    /// Increments the counters of the rows in one transaction, which is repeated until it commits,
    /// and returns the number of attempts when the commit is durable.
    ///
    /// # Errors
    /// An error of the engine, or a missing row.
    fn update(&mut self, keys: &Keys) -> Result<u32, Failure>;

    /// Reads all columns of the rows in one transaction, which is repeated until it commits.
    /// Returns the number of attempts, and the sum of the rows' [`digest`]s modulo 2^64.
    ///
    /// # Errors
    /// An error of the engine, or a missing row.
    fn read(&mut self, keys: &Keys) -> Result<(u32, u64), Failure>;

    /// Inserts rows with these keys, which ascend and are new, and counters of zero, in one
    /// transaction. Returns the number of attempts when the commit is durable.
    ///
    /// # Errors
    /// An error of the engine, or an existing row.
    fn insert(&mut self, keys: &Keys) -> Result<u32, Failure>;

    /// Reads all columns of the [`ROWS_PER_SCAN`] rows from key `first` on, in the order of their
    /// keys, in one transaction, as [`Self::read`] does.
    ///
    /// # Errors
    /// An error of the engine, or another number of rows.
    fn scan(&mut self, first: u64) -> Result<(u32, u64), Failure>;
}

/// The operation of a transaction on its rows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Increments the counter of each.
    Update,
    /// Reads each as a whole.
    Read,
    /// Increments the counter of each, where all clients choose among few rows.
    Contend,
    /// Inserts new rows.
    Insert,
    /// Reads rows that follow each other.
    Scan,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Operation::Update => "update",
            Operation::Read => "read",
            Operation::Contend => "contend",
            Operation::Insert => "insert",
            Operation::Scan => "scan",
        })
    }
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 5] =
        [Operation::Update, Operation::Read, Operation::Contend, Operation::Insert, Operation::Scan];

    /// True if it increments counters.
    pub fn increments(self) -> bool {
        matches!(self, Operation::Update | Operation::Contend)
    }

    /// True if it only reads.
    pub fn only_reads(self) -> bool {
        matches!(self, Operation::Read | Operation::Scan)
    }

    /// Its name in a heading.
    pub fn title(self) -> &'static str {
        match self {
            Operation::Update => "update of 10 rows",
            Operation::Read => "read of 10 rows",
            Operation::Contend => "update of 10 rows of 50",
            Operation::Insert => "insert of 10 rows",
            Operation::Scan => "scan of 100 rows",
        }
    }
}

/// Totals over the rows of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of rows.
    pub rows: u64,
    /// Sum of their counters.
    pub counters: u64,
}

impl Total {
    /// Adds a row.
    pub fn add(&mut self, counter: u64) {
        self.rows += 1;
        self.counters += counter;
    }
}

/// The payload of a row: 64-bit words that depend on the key.
pub fn payload(key: u64) -> [u8; PAYLOAD_BYTES] {
    let mut bytes = [0; PAYLOAD_BYTES];
    for (number, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&crate::random::mix(key, number as u64).to_le_bytes());
    }
    bytes
}

/// A row as a value of a key-value store: counter, payload.
pub fn value(key: u64) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    bytes[8..].copy_from_slice(&payload(key));
    bytes
}

/// The counter of a value.
///
/// # Errors
/// The value is too short.
pub fn counter(value: &[u8]) -> Result<u64, Failure> {
    let bytes = value.first_chunk().ok_or("a value is shorter than its counter")?;
    Ok(u64::from_le_bytes(*bytes))
}

/// The value with its counter incremented.
///
/// # Errors
/// The value has another length.
pub fn incremented(value: &[u8]) -> Result<[u8; VALUE_BYTES], Failure> {
    let mut bytes: [u8; VALUE_BYTES] = value.try_into()?;
    bytes[..8].copy_from_slice(&(counter(value)? + 1).to_le_bytes());
    Ok(bytes)
}

/// A number that depends on all whole words of `bytes`, so that reading is not optimized away.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(0, |sum, word| {
        // All chunks have 8 bytes.
        sum ^ word.try_into().map_or(0, u64::from_le_bytes)
    })
}

/// Checks that a scan has found all its rows.
///
/// # Errors
/// Rows are missing.
pub fn all_scanned(rows: usize, first: u64) -> Result<(), Failure> {
    match rows {
        ROWS_PER_SCAN => Ok(()),
        _ => Err(format!("{rows} rows from {first} on, where {ROWS_PER_SCAN} are").into()),
    }
}

/// The failure of a transaction that does not find a row.
pub fn missing(key: u64) -> Failure {
    format!("row {key} is missing").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incrementing_changes_the_counter_only() {
        let first = value(7);
        let second = incremented(&incremented(&first).unwrap()).unwrap();
        assert_eq!((counter(&first).unwrap(), counter(&second).unwrap()), (0, 2));
        assert_eq!(first[8..], second[8..]);
        assert_eq!(digest(&second), digest(&first) ^ 2);
        assert!(incremented(&first[1..]).is_err());
        assert!(counter(&first[..7]).is_err());
    }

    #[test]
    fn payloads_differ() {
        assert_ne!(payload(1), payload(2));
    }
}
