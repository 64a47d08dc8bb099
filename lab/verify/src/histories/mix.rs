//! Parameters of a history, by its seed.

use std::ops::Range;

use crate::task::Task;

/// Short enough that memory is reused and conflicting stamps are of several epochs; long enough
/// that many transactions share one.
const EPOCHS_NANOS: [u64; 2] = [3_000, 100_000];
/// Many keys: they fill several leaves, which are then split and unlinked.
const KEYS_MANY: u64 = 120;
/// Factor of transactions on hardware, where they overlap less.
const HARDWARE_FACTOR: u64 = 6;
/// Waits for locks: as the scheme has them, for a few transactions, and for all that there are.
const LOCK_WAITS: [Option<u64>; 4] = [None, Some(1_000_000_000), None, Some(20_000)];

/// Returns true if transactions set savepoints: one seed in five.
pub(super) fn has_savepoints(seed: u64) -> bool {
    seed % 5 == 4
}

/// Parameters of a history.
pub(super) struct Mix {
    /// Transactions of each worker.
    pub transactions: u64,
    /// Keys of items; cells have half as many.
    pub keys: u64,
    /// The keys that are used most.
    pub hot: Range<u64>,
    /// True if the table of items is divided in two.
    pub partitioned: bool,
    /// Shortest epoch.
    pub epoch_nanos: u64,
    /// True if transactions set savepoints.
    pub savepoints: bool,
    /// Longest wait for a lock of every other worker's transactions, if the workers set it: some
    /// run out of time.
    pub lock_wait: Option<u64>,
}

impl Mix {
    pub(super) fn of(task: &Task<'_>, is_virtual: bool) -> Self {
        let seed = task.seed;
        let many = seed % 16 == 7;
        let keys = if many { KEYS_MANY } else { 4 + seed / 3 % 4 * 3 };
        let first_hot = seed / 16 % 7 * 16;
        let hot = if many { first_hot..first_hot + 8 } else { 0..keys };
        let transactions = if many { 12 } else { 4 + seed / 12 % 5 };
        let factor = if is_virtual { 1 } else { HARDWARE_FACTOR };
        let partitioned = task.partitioned || seed / 60 % 2 == 1;
        let epoch_nanos = EPOCHS_NANOS[(seed / 16 % 2) as usize];
        let savepoints = has_savepoints(seed);
        let lock_wait = LOCK_WAITS[(seed / 5 % 4) as usize];
        Mix {
            transactions: transactions * factor,
            keys,
            hot,
            partitioned,
            epoch_nanos,
            savepoints,
            lock_wait,
        }
    }

    /// Longest wait for a lock of a worker's transactions, if the worker sets it.
    pub(super) fn lock_wait_of(&self, worker: usize) -> Option<u64> {
        self.lock_wait.filter(|_| worker.is_multiple_of(2))
    }
}
