//! Requests for rows, grouped into the actions of a transaction. A transaction of one batch
//! allocates nothing.

use serde::{Deserialize, Serialize};

/// Most requests of one batch: more than the cache misses that a core can have outstanding, so a
/// longer batch would overlap no more of them.
pub const REQUESTS_MAX: usize = 16;
/// Bits of a row's number within its partition; the partition is in the bits above.
const NUMBER_BITS: u32 = 48;

/// How the requests of a transaction become actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// An action stays within one partition: for executors and schemes that route by partition.
    #[default]
    ByPartition,
    /// An action takes any requests, and its home is the partition of the first: misses of several
    /// partitions overlap. For inline execution.
    Together,
}

/// The key of row number `number` of a partition. The normalized key begins with the partition.
#[inline]
pub fn key(partition: u16, number: u64) -> u64 {
    u64::from(partition) << NUMBER_BITS | number
}

/// The partition of a key.
#[inline]
pub fn partition(key: u64) -> u16 {
    (key >> NUMBER_BITS) as u16
}

/// The number of a key within its partition: a perfect hash for the rows of a partition.
#[inline]
pub fn number(key: u64) -> u64 {
    key & ((1 << NUMBER_BITS) - 1)
}

/// Up to [`REQUESTS_MAX`] requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch<R> {
    partition: u16,
    count: u8,
    requests: [R; REQUESTS_MAX],
}

impl<R: Copy + Default> Default for Batch<R> {
    fn default() -> Self {
        Batch { partition: 0, count: 0, requests: [R::default(); REQUESTS_MAX] }
    }
}

impl<R> Batch<R> {
    /// The requests. A batch that was received with too large a count counts as full.
    #[inline]
    pub fn requests(&self) -> &[R] {
        &self.requests[..usize::from(self.count).min(REQUESTS_MAX)]
    }

    /// The partition of the first request.
    pub fn partition(&self) -> u16 {
        self.partition
    }

    fn takes(&self, partition: u16, grouping: Grouping) -> bool {
        usize::from(self.count) < REQUESTS_MAX
            && (self.partition == partition || grouping == Grouping::Together)
    }

    fn push(&mut self, partition: u16, request: R) {
        if self.count == 0 {
            self.partition = partition;
        }
        self.requests[usize::from(self.count)] = request;
        self.count += 1;
    }
}

/// The batches of one transaction; the first one is stored inline, without allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batches<R: Copy + Default> {
    first: Batch<R>,
    rest: Vec<Batch<R>>,
}

impl<R: Copy + Default> Batches<R> {
    /// No batches.
    #[inline]
    pub fn new() -> Self {
        Batches { first: Batch::default(), rest: Vec::new() }
    }

    /// Adds a request to a batch that has room for it and may take its partition, or to a new one.
    #[inline]
    pub fn push(&mut self, grouping: Grouping, partition: u16, request: R) {
        if self.first.count == 0 || self.first.takes(partition, grouping) {
            return self.first.push(partition, request);
        }
        if let Some(batch) = self.rest.iter_mut().rfind(|batch| batch.takes(partition, grouping)) {
            return batch.push(partition, request);
        }
        let mut batch = Batch::default();
        batch.push(partition, request);
        self.rest.push(batch);
    }

    /// All batches with requests.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Batch<R>> {
        Some(&self.first).filter(|batch| batch.count > 0).into_iter().chain(&self.rest)
    }

    /// All requests.
    pub fn requests(&self) -> impl Iterator<Item = &R> {
        self.iter().flat_map(Batch::requests)
    }
}

/// A pseudo-random number that depends on its arguments only: the finalizer of MurmurHash3 over
/// both.
#[inline]
pub fn mix(left: u64, right: u64) -> u64 {
    let mut word = left.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ right;
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use schema::KeyBuffer;

    use super::*;

    #[test]
    fn batches_stay_within_a_partition() {
        let mut batches = Batches::new();
        for number in 0..40u64 {
            batches.push(Grouping::ByPartition, (number % 2) as u16, number);
        }
        let sizes: Vec<_> = batches.iter().map(|batch| (batch.partition(), batch.requests().len())).collect();
        assert_eq!(sizes, [(0, 16), (1, 16), (0, 4), (1, 4)]);
        assert!(
            batches.iter().all(|batch| batch.requests().iter().all(|n| n % 2 == u64::from(batch.partition)))
        );
    }

    #[test]
    fn batches_together_are_as_few_as_possible() {
        let mut batches = Batches::new();
        assert_eq!(batches.iter().count(), 0);
        for number in 0..33u64 {
            batches.push(Grouping::Together, number as u16, number);
        }
        assert_eq!(batches.iter().count(), 3);
        assert!(batches.requests().copied().eq(0..33));
    }

    #[test]
    fn keys_have_two_parts() {
        let key = key(7, 1_234_567);
        assert_eq!((partition(key), number(key)), (7, 1_234_567));
        assert_eq!(terms::rows::partition_column(KeyBuffer::of(&key).words(1)[0]), 7);
    }
}
